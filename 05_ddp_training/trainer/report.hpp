// What this file adds: what a run prints and logs: a JSON row per step or a line per epoch, and
// at the end where time and memory went, what was sent, and the parameters.
#pragma once

#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/trainer/memory.hpp"
#include "05_ddp_training/trainer/options.hpp"
#include "05_ddp_training/trainer/timeline.hpp"
#include "common/atomic_file.hpp"
#include "common/console.hpp"
#include "common/cpu_quota.hpp"
#include "common/slowest.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dist {

struct TensorSource;

// What a run measures besides its steps' times, and the ranks that take part in it.
struct RunSummary {
  std::string device{};
  int ranks = 1;
  std::string backend{};
  bool overlaps = false;  // whether communication has a thread or stream of its own
  struct {
    double tests = 0, replica_checks = 0, checkpoints = 0;
  } between_ms{};                             // spent between the steps
  std::optional<std::uint64_t> bytes_sent{};  // by a rank in a step; unset if not counted
  double least_bytes = 0;                     // the minimum that a rank must send
  TrainingMemory memory{};
  std::optional<Slowest> slowest{};  // the rank that the others waited for
  // The rank that a quota paused most often, if it paused any often (common/cpu_quota.hpp).
  struct Paused {
    std::size_t rank;
    CpuQuota quota;  // with the periods of this run alone
  };
  std::optional<Paused> paused{};
  std::size_t graph_nodes = 0;               // StepGraph::kernels
  std::optional<bool> replicas_identical{};  // unset without replicas
  std::optional<double> test_accuracy{};     // unset without a test set
};

class Report {
 public:
  // `console` and `options` must outlive this. The run continues an earlier one after
  // `steps_before` steps and ends after `total_steps`. The process that prints writes a row per
  // step to the file of --metrics, after removing those of steps that will be repeated; throws
  // Error if it cannot.
  Report(const Console& console, const Options& options, std::size_t steps_before,
         std::size_t total_steps);

  // A step's outcome, whose loss is that before the step, averaged over ranks. For a skipped
  // step, `not_finite` names the parameter whose gradient was not finite.
  void step(std::size_t epoch, double lr, double loss, const UpdateState& update,
            const std::string& not_finite, const StepTimes& times);
  // What the steps of an epoch are to this run: all of them, the rest of them, or some.
  enum class Epoch { whole, resumed, unfinished };
  // Called after each epoch, tested or not, or once if nothing was trained. One whose last step
  // was taken gets a row if there is a test set.
  void epoch(std::size_t epoch, Epoch steps);
  // Whether the --metrics file ends with the last step of the earlier run, and not with a test
  // after it. False on ranks that do not print.
  bool lacks_test() const { return lacks_test_; }
  void test(std::size_t epoch);  // the row for an epoch's test
  // Why the model has learned nothing, as a sentence; empty if it may have: most steps had to
  // be skipped, or the mean loss of the last whole epoch is not finite, or worse than guessing
  // among so many classes.
  std::string learned_nothing(std::size_t classes) const;
  // Called if the run stops early on request; `checkpoint` is the file to resume from.
  void stopped(const std::string& checkpoint);
  // The end: lines of text or, with --json, the last row. Returns false if a number of the
  // `parameters` (the names, and what get() returns) is not finite. Called on all ranks.
  // `more` ends the row.
  bool finish(const std::vector<TensorSource>& parameters, const Stream& stream,
              const Json& more);

  const Timeline& times() const { return times_; }
  // Why the --metrics file lacks steps, as a sentence; empty if it has all steps.
  const std::string& problem() const { return problem_; }
  RunSummary summary{};  // filled in by those who measure

 private:
  void write(const Json& row);  // to --json and --metrics
  void print(const StepTimes& typical, const StepTimes& plain) const;
  // A bar on standard error, but only on a terminal. It is cleared before a line is printed.
  void draw_bar();
  void clear_bar();

  const Console& console_;
  const Options& options_;
  std::size_t first_step_, steps_, total_steps_;
  Timeline times_;
  std::optional<File> metrics_;
  std::string problem_;
  std::size_t bar_ = 0;  // its length
  bool lacks_test_ = false;
  struct Losses {  // a skipped step changed nothing, and its loss is seldom a number
    std::size_t steps = 0, taken = 0;
    double sum = 0;  // over the steps that were taken
    double mean() const { return sum / static_cast<double>(taken); }  // NaN if there is none
  };
  Losses run_{}, epoch_{}, line_{};
  Losses whole_epoch_{};                // the last epoch of which this run did all steps
  std::optional<double> first_loss_{};  // of the first step that this run took
};

}  // namespace dist
