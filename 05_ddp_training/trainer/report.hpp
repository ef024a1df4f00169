// What this file adds: what a run measures, prints and logs: a JSON row per step or a line per
// epoch, and at the end where time and memory went, what was sent, and the parameters. Whoever
// measures a number stores it in the report; nobody hands it on.
#pragma once

#include "01_send_recv/measure.hpp"
#include "05_ddp_training/data_parallel/communication_times.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "common/console.hpp"
#include "common/slowest.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dist {

class File;
struct TensorSource;

// One step, in milliseconds. A step that is replayed as a whole (StepGraph) knows only how long
// it took altogether.
struct StepTimes {
  bool replayed = false;
  std::size_t samples = 0;  // on all ranks
  double step = 0;
  double data = 0;  // waiting for the batch
  CommunicationTimes communication{};
  double optimizer = 0;
  double waits = 0, allocations = 0;  // calls of CUDA (common/stream.hpp); 0 on the CPU

  double busy() const { return step - communication.exposed; }  // without waits for others
  double compute() const { return step - data - communication.exposed - optimizer; }
  // The fraction of the communication that was hidden, from 0 to 1. NaN if the time is unknown.
  double hidden() const {
    const auto& [total, exposed, hideable] = communication;
    if (!std::isfinite(total)) return total;
    return total <= 0 ? 0 : std::max(0.0, 1.0 - exposed / total);
  }
};

// All steps of a run or, if there are thousands, every second one, every fourth and so on, so
// that memory does not grow with the run. The figures omit the first steps, which allocate
// memory and fill caches, and an epoch's last step if its batch is smaller. The times of plain
// and of replayed steps are never mixed.
class Timeline {
 public:
  void add(const StepTimes& times) {
    if (steps_++ % every_ != 0) return;
    times_.push_back(times);
    if (times_.size() < 8192) return;
    every_ *= 2;
    for (std::size_t i = 0; 2 * i < times_.size(); ++i) times_[i] = times_[2 * i];
    times_.resize(times_.size() / 2);
  }
  bool empty() const { return times_.empty(); }
  // Each part's median over the steps that are not replayed. NaN if there are fewer than
  // `least`.
  StepTimes plain(std::size_t least = 1) const { return median_of(false, least); }
  // Each part's median. If steps are replayed, this is one of them, whose parts are unknown.
  StepTimes typical() const {
    const StepTimes replayed = median_of(true, 1);
    return replayed.step > 0 ? replayed : plain();
  }
  double samples_per_second() const {
    double seconds = 0, samples = 0;
    for (std::size_t i = left_out(); i < times_.size(); ++i) {
      seconds += 1e-3 * times_[i].step;
      samples += static_cast<double>(times_[i].samples);
    }
    return seconds > 0 ? samples / seconds : 0.0;
  }

 private:
  // At least half of the steps of a short run are kept.
  std::size_t left_out() const { return std::min<std::size_t>(5, times_.size() / 2); }
  StepTimes median_of(bool replayed, std::size_t least) const {
    if (times_.empty()) return {};
    std::size_t full = 0;
    for (const StepTimes& step : times_) full = std::max(full, step.samples);
    std::vector<StepTimes> kept;
    for (std::size_t i = left_out(); i < times_.size(); ++i) {
      const StepTimes& step = times_[i];
      if (step.samples == full && step.replayed == replayed) kept.push_back(step);
    }
    const auto part = [&](auto of) {
      if (kept.size() < least) return std::numeric_limits<double>::quiet_NaN();
      std::vector<double> values;
      for (const StepTimes& step : kept) values.push_back(of(step));
      return median(std::move(values));
    };
    return {.replayed = replayed,
            .step = part([](auto& s) { return s.step; }),
            .data = part([](auto& s) { return s.data; }),
            .communication = {part([](auto& s) { return s.communication.total; }),
                              part([](auto& s) { return s.communication.exposed; }),
                              part([](auto& s) { return s.communication.hideable; })},
            .optimizer = part([](auto& s) { return s.optimizer; }),
            .waits = part([](auto& s) { return s.waits; }),
            .allocations = part([](auto& s) { return s.allocations; })};
  }

  std::size_t steps_ = 0, every_ = 1;
  std::vector<StepTimes> times_;
};

// Resident bytes, as the kernel counts them: pages that are in memory, not those that are only
// reserved. Zero if /proc/self/status does not exist.
struct MemoryUse {
  std::size_t now = 0;
  std::size_t peak = 0;  // the most at any one time
};
// Counts only 1 / `ranks` of the memory that ranks share, because each of the `ranks` ranks on
// this host contributes one part, but the kernel counts a page for each process that has
// touched it.
inline MemoryUse memory_use(int ranks) {
  std::map<std::string, std::size_t> bytes;
  std::ifstream status("/proc/self/status");
  // Parse lines such as "VmHWM:     1940 kB", and ignore lines without a number.
  for (std::string key; status >> key;) {
    std::size_t kib = 0;
    if (status >> kib) bytes[key] = 1024 * kib;
    status.clear();
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  const std::size_t shared = bytes["RssShmem:"];
  const std::size_t resident = bytes["RssAnon:"] + bytes["RssFile:"] + shared;
  const std::size_t of_others = shared - shared / static_cast<std::size_t>(ranks);
  // The kernel updates its record of the peak only from time to time.
  return {resident - of_others, std::max(bytes["VmHWM:"], resident) - of_others};
}
// Resets the peak, if the kernel permits it, so that it covers only the time from this call on.
inline void restart_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";  // proc(5): resets VmHWM
}

// In data parallelism, every rank holds a whole model, its gradients and its optimizer state,
// whatever the number of ranks.
struct TrainingMemory {
  // Counted: the bytes of the tensors.
  std::size_t parameters = 0, gradients = 0, optimizer_state = 0, activations = 0;
  std::size_t buckets = 0;  // with --shard: room for the whole buckets that are in use
  std::size_t copies = 0;   // with --precision bf16: the rounded factors of the products
  // Measured (memory_use): the peak after the first step, and the memory in use before the
  // model was made (the program, its libraries, MPI and the data).
  std::size_t peak = 0, before = 0;

  std::size_t counted() const {
    return parameters + gradients + optimizer_state + activations + buckets + copies;
  }
};
// The counted part of this rank's memory. It holds the values of the first parameters and the
// gradients of the second ones: the model's own, or its parts of them.
inline TrainingMemory count_memory(const Mlp& model, const Optimizer& optimizer,
                                   std::span<const Parameter> values,
                                   std::span<const Parameter> gradients) {
  TrainingMemory memory{.activations = model.activation_bytes(), .copies = model.copy_bytes()};
  for (const Parameter& each : values) memory.parameters += each.value.size_bytes();
  for (const Parameter& each : gradients) memory.gradients += each.grad.size_bytes();
  for (const auto& [name, value] : optimizer.state()) {
    memory.optimizer_state += value.size_bytes();
  }
  return memory;
}

// The ranks and the device of a run, and how its gradients travelled. An empty text is null in
// the row.
struct RunDescription {
  std::string device, precision;
  int ranks = 1;
  std::string backend, algorithm, shard;
  double pretend_link = 0;  // Gbit/s; 0: none
  bool overlaps = false;    // whether communication has a thread or stream of its own
};

class Report {
 public:
  // `console` must outlive this. The run continues an earlier run after `steps_before` steps
  // and ends after `total_steps`. The process that prints writes a row per step to the file
  // `metrics`, unless that is empty, and first removes those of steps that are repeated. Throws
  // Error if it cannot be opened.
  Report(const Console& console, const std::string& metrics, std::size_t steps_before,
         std::size_t total_steps);
  ~Report();  // where File is complete

  // A step's report, whose loss is that before the step, averaged over ranks. For a skipped
  // step, `not_finite` names the parameter whose gradient was not finite.
  void step(std::size_t epoch, double lr, const UpdateState& update,
            const std::string& not_finite);
  // Called after each epoch, with test_accuracy, or once if nothing was trained.
  void epoch(std::size_t epoch);
  // Called if the run stops early on request; `checkpoint` is the file to resume from.
  void stopped(const std::string& checkpoint);
  // The end: lines of text or, with --json, the last row. Returns false if a number of the
  // `parameters` (the names, and what get() returns) is not finite. Called on all ranks.
  bool finish(const std::vector<TensorSource>& parameters, const Stream& stream);

  // Why the --metrics file lacks steps, as a sentence; empty if it has all steps.
  const std::string& problem() const { return problem_; }

  RunDescription run{};
  bool clips = false;  // whether rows have the norm of the gradients
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
  // A bar on standard error, but only on a terminal. It is cleared before a line is printed.
  void draw_bar();
  void clear_bar();

  const Console& console_;
  std::size_t first_step_, steps_, total_steps_;
  std::unique_ptr<File> metrics_;
  std::string problem_;
  std::size_t bar_ = 0;  // its length
  double epoch_loss_ = 0;
  std::size_t epoch_steps_ = 0;
  std::size_t skipped_ = 0;
};

}  // namespace dist
