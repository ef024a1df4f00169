// What this file adds: what a run prints and logs: a JSON row per step or a line per epoch, and
// at the end where time and memory went, what was sent, and the parameters, so that two runs
// can be compared. Whoever measures a number stores it in the report; nobody hands it on.
#pragma once

#include "05_ddp_training/trainer/measures.hpp"
#include "common/console.hpp"
#include "common/slowest.hpp"

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace dist {

struct TensorSource;

// --metrics: a file of JSON lines, one per step, which a resumed run continues as if it had
// never stopped.
class MetricsFile {
 public:
  // Called on one rank. Keeps only the lines for steps before `first_step`, because later steps
  // are repeated and logged again. Throws Error naming the file.
  MetricsFile(std::string path, std::size_t first_step);

  // Hands one line to the operating system. `row` must have a number under "step". A full disk
  // must not end the run: the first line that cannot be written is reported on standard error,
  // and nothing is written after it.
  void append(const Json& row);
  // What went wrong, as a sentence; empty if nothing went wrong.
  const std::string& problem() const { return problem_; }

 private:
  std::string path_;
  std::ofstream file_;
  std::string problem_;
};

// A bar on standard error, but only on a terminal. Under mpirun a rank cannot find out whether
// its output reaches a terminal, so ./learn sets LEARN_TERMINAL=1 if it does.
class ProgressBar {
 public:
  ProgressBar(const Console& console, std::size_t total_steps);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void advance();
  // Removes the bar from the screen, so that a line can be printed in its place.
  void clear();

 private:
  bool visible_;
  std::size_t total_;
  std::size_t done_ = 0;
  std::size_t drawn_ = 0;
};

// The ranks and the device of a run, and how its gradients travelled. An empty text is null in
// the row.
struct RunDescription {
  std::string device, precision;
  int ranks = 1;
  std::string backend, algorithm, shard;
  std::string overlap;  // why communication is hidden or not
};

class Report {
 public:
  // `console` must outlive this. The run continues an earlier run after `steps_before` steps
  // and ends after `total_steps`. Opens the file `metrics`, unless that is empty, on the
  // process that prints, or throws Error.
  Report(const Console& console, const std::string& metrics, std::size_t steps_before,
         std::size_t total_steps);

  // A step: the loss before it, averaged over ranks, and its learning rate. For a skipped step,
  // `not_finite` names the parameter whose gradient was not finite. `norm` is that of the
  // gradients before they were clipped, if they are.
  void step(std::size_t epoch, double loss, double lr, const std::string& not_finite,
            std::optional<double> norm);
  // Called after each epoch, with test_accuracy.
  void epoch(std::size_t epoch);
  // Called instead of step() and epoch() if nothing was trained.
  void tested();
  // Called if the run stops early on request; `checkpoint` is the file to resume from.
  void stopped(const std::string& checkpoint);
  // The end: lines of text or, with --json, the last row. Returns false if a number of the
  // `parameters` (the names, and what get() returns) is not finite. Called on all ranks.
  bool finish(const std::vector<TensorSource>& parameters, const Stream& stream);

  // Why the --metrics file lacks steps; empty if it has all steps.
  std::string problem() const { return metrics_ ? metrics_->problem() : ""; }

  RunDescription run{};
  Timeline times{};
  struct {
    double tests = 0, replica_checks = 0, checkpoints = 0;
  } between_ms{};                             // spent between the steps
  std::optional<std::uint64_t> bytes_sent{};  // by a rank in a step; unset if not counted
  double least_bytes = 0;                     // the minimum that a rank must send
  TrainingMemory memory{};
  std::optional<Slowest> slowest{};          // the rank that the others waited for
  std::size_t graph_nodes = 0;               // StepGraph::kernels
  std::optional<bool> replicas_identical{};  // unset without replicas
  std::optional<double> test_accuracy{};  // unset without a test set, or before the first test

 private:
  void print(const StepTimes& typical, const StepTimes& plain) const;

  const Console& console_;
  std::size_t steps_;
  std::size_t total_steps_;
  std::optional<MetricsFile> metrics_;
  ProgressBar progress_;
  double epoch_loss_ = 0;
  std::size_t epoch_steps_ = 0;
  std::size_t skipped_ = 0;
};

}  // namespace dist
