// What this file adds: the measures of a run: the times of its steps, and where a rank's memory
// goes.
#pragma once

#include "01_send_recv/measure.hpp"
#include "05_ddp_training/data_parallel/communication_times.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dist {

// One step, in milliseconds.
struct StepTimes {
  // A step that is replayed as a whole (StepGraph) knows only how long it took altogether.
  bool replayed = false;
  std::size_t samples = 0;  // on all ranks
  double step = 0;
  double data = 0;                     // waiting for the batch
  CommunicationTimes communication{};  // of the step's all-reduces
  double optimizer = 0;
  // Calls of CUDA (common/stream.hpp). 0 on the CPU.
  double waits = 0;
  double allocations = 0;

  double busy() const { return step - communication.exposed; }  // without waits for others
  double compute() const { return step - data - communication.exposed - optimizer; }
  // The fraction of the communication that was hidden, from 0 to 1. NaN if the time is unknown.
  double hidden() const {
    const auto& [total, exposed, hideable] = communication;
    if (!std::isfinite(total)) return total;
    return total <= 0 ? 0 : std::max(0.0, 1.0 - exposed / total);
  }
};

// All steps of a run. The figures omit the first steps, which allocate memory and fill caches,
// and an epoch's last step if its batch is smaller. The times of plain and of replayed steps
// are never mixed.
class Timeline {
 public:
  void add(const StepTimes& times) { times_.push_back(times); }
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
    using Step = const StepTimes&;
    return {.replayed = replayed,
            .samples = full,
            .step = part([](Step s) { return s.step; }),
            .data = part([](Step s) { return s.data; }),
            .communication = {part([](Step s) { return s.communication.total; }),
                              part([](Step s) { return s.communication.exposed; }),
                              part([](Step s) { return s.communication.hideable; })},
            .optimizer = part([](Step s) { return s.optimizer; }),
            .waits = part([](Step s) { return s.waits; }),
            .allocations = part([](Step s) { return s.allocations; })};
  }

  std::vector<StepTimes> times_;
};

// Adds its lifetime to `milliseconds`.
class Stopwatch {
 public:
  explicit Stopwatch(double& milliseconds) : milliseconds_(milliseconds) {}
  ~Stopwatch() {
    milliseconds_ += std::chrono::duration<double, std::milli>(Clock::now() - begin_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& milliseconds_;
  Clock::time_point begin_ = Clock::now();
};

// Resident bytes, as the kernel counts them: pages that are in memory, not those that are only
// reserved. If several processes share a page, the kernel counts it for each process that has
// touched it.
struct MemoryUse {
  std::size_t peak = 0;    // the most bytes resident at any one time
  std::size_t own = 0;     // now: what belongs to this process alone, such as the heap
  std::size_t files = 0;   // now: the program, its libraries and mapped data files
  std::size_t shared = 0;  // now: memory shared with other ranks

  // Both functions count only 1 / `ranks` of the shared memory, because each rank on this host
  // contributes one part but sees all parts.
  std::size_t resident_share(int ranks) const { return own + files + part(ranks); }
  std::size_t peak_share(int ranks) const { return peak - shared + part(ranks); }

 private:
  std::size_t part(int ranks) const { return shared / static_cast<std::size_t>(ranks); }
};

// All members are zero if /proc/self/status does not exist.
inline MemoryUse memory_use() {
  std::map<std::string, std::size_t> bytes;
  std::ifstream status("/proc/self/status");
  // Parse lines such as "VmHWM:     1940 kB", and ignore lines without a number.
  for (std::string key; status >> key;) {
    std::size_t kib = 0;
    if (status >> kib) bytes[key] = 1024 * kib;
    status.clear();
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  MemoryUse use{.peak = bytes["VmHWM:"],
                .own = bytes["RssAnon:"],
                .files = bytes["RssFile:"],
                .shared = bytes["RssShmem:"]};
  // The kernel updates its record of the peak only from time to time.
  use.peak = std::max(use.peak, use.own + use.files + use.shared);
  return use;
}

// Resets the peak, so that it covers only the time from this call on. Returns false and changes
// nothing if the kernel does not permit it.
inline bool restart_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;  // proc(5): resets VmHWM
  return file.good();
}

// In data parallelism, every rank holds a whole model, its gradients and its optimizer state,
// whatever the number of ranks.
struct TrainingMemory {
  // Counted: the bytes of the tensors.
  std::size_t parameters = 0;
  std::size_t gradients = 0;
  std::size_t optimizer_state = 0;
  std::size_t activations = 0;
  std::size_t buckets = 0;  // with --shard: room for the whole buckets that are in use
  std::size_t copies = 0;   // with --precision bf16: the rounded factors of the products
  // Measured (memory_use): the peak after the first step, and the memory in use before the
  // model was made (the program, its libraries, MPI and the data). 0 if they cannot be
  // measured.
  std::size_t peak = 0;
  std::size_t before = 0;

  std::size_t counted() const {
    return parameters + gradients + optimizer_state + activations + buckets + copies;
  }
};

// The counted part of this rank's memory if it holds the whole model.
inline TrainingMemory count_memory(const Mlp& model, const Optimizer& optimizer) {
  TrainingMemory memory{.activations = model.activation_bytes(), .copies = model.copy_bytes()};
  for (const Parameter& parameter : model.parameters()) {
    memory.parameters += parameter.value.size_bytes();
    memory.gradients += parameter.grad.size_bytes();
  }
  for (const Optimizer::State& state : optimizer.state()) {
    memory.optimizer_state += state.value.size_bytes();
  }
  return memory;
}

}  // namespace dist
