// What this file adds: where a step's time goes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dist {

// Of one step, in milliseconds.
struct StepTimes {
  double step = 0;
  double data = 0;           // waiting for the batch
  double communication = 0;  // all-reduces, one after the other
  double exposed = 0;        // the part of them during which nothing was computed
  double hideable = 0;       // the part of them that backward could have hidden
  double optimizer = 0;
  double compute() const { return step - data - exposed - optimizer; }  // forward, backward
  double busy() const { return step - exposed; }  // not waiting for other ranks

  // How much of the communication was hidden, from 0 to 1. NaN if nobody knows how long it
  // took.
  double hidden() const;
};

// All steps of a run. The first ones are left out of the figures: they allocate memory and warm
// caches up.
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
