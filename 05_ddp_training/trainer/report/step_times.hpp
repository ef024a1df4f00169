// What this file adds: a record of how long each part of a step takes.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace dist {

// Times of one step, in milliseconds.
struct StepTimes {
  // A step that is replayed as a whole (StepGraph) knows only how long it took altogether.
  bool replayed = false;
  std::size_t samples = 0;
  double step = 0;
  double data = 0;           // waiting for the batch
  double communication = 0;  // summed over the step's all-reduces
  double exposed = 0;        // the part of this sum during which nothing was computed
  double hideable = 0;       // the part of this sum that the backward pass could have hidden
  double optimizer = 0;
  // Calls of CUDA (common/stream.hpp). 0 on the CPU.
  double waits = 0;
  double allocations = 0;
  double compute() const { return step - data - exposed - optimizer; }  // forward, backward
  double busy() const { return step - exposed; }  // without waits for other ranks

  // The fraction of the communication that was hidden, from 0 to 1. NaN if the time is unknown.
  double hidden() const;
};

// Milliseconds that a run has spent between its steps.
struct TimesBetween {
  double tests = 0;
  double replica_checks = 0;
  double checkpoints = 0;
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

// All steps of a run. The figures omit the first steps, which allocate memory and fill caches,
// and an epoch's last step if its batch is smaller.
class StepTimeline {
 public:
  void add(const StepTimes& times) { times_.push_back(times); }

  std::size_t steps() const { return times_.size(); }
  // Each part's median. If steps are replayed, this is one of them, whose parts are unknown.
  StepTimes typical() const;
  // Each part's median over the steps that are not replayed. NaN if there are fewer than
  // `least`.
  StepTimes plain(std::size_t least = 1) const;
  double samples_per_second() const;

 private:
  template <class Keep>
  StepTimes median_of(Keep keep, std::size_t least) const;

  std::vector<StepTimes> times_;
};

}  // namespace dist
