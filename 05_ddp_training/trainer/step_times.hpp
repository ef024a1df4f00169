// What this file adds: a record of how long each part of a step takes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dist {

// Times of one step, in milliseconds.
struct StepTimes {
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

// All steps of a run. The figures omit the first steps, which allocate memory and fill caches.
class StepTimeline {
 public:
  void add(const StepTimes& times, std::size_t samples);

  std::size_t steps() const { return times_.size(); }
  // Each part's median.
  StepTimes typical() const;
  double samples_per_second() const;

 private:
  std::vector<StepTimes> times_;
  std::vector<std::size_t> samples_;
};

}  // namespace dist
