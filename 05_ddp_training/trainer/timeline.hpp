// What this file adds: where the time of a step goes, and how much of its communication
// backward hid or could have hidden. The times are read after the step, because reading them
// within it would mean waiting for the device.
#pragma once

#include "01_send_recv/measure.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace dist {

// All times are in milliseconds since a common starting point. Bucket i is full at full[i]. Its
// all-reduce starts then, or when the previous one ends if that is later, and takes took[i].
// Backward ends when the last bucket is full, and communication after that moment is exposed:
//
//   backward       |   |full[0]   |full[1]   |full[2]
//   all-reduces        [ took[0] ][ took[1] ][ took[2] ]
//                                            ^ exposed: no computation is left to hide it
//
// Returns how much of the communication time is not exposed, because backward hides it. This is
// an upper bound: the all-reduces may start late.
inline double hideable_ms(std::span<const double> full, std::span<const double> took) {
  double total = 0;
  double end = 0;
  for (std::size_t i = 0; i < full.size(); ++i) {
    end = std::max(end, full[i]) + took[i];
    total += took[i];
  }
  return total - (end - full.back());
}

// One step, in milliseconds. A step that is replayed as a whole (StepGraph) knows only how long
// it took altogether, and waited for its data.
struct StepTimes {
  bool replayed = false;
  std::size_t samples = 0;  // on all ranks
  double step = 0;
  double data = 0;           // waiting for the batch; an epoch's first: shuffling, too
  double communication = 0;  // summed over the step's collectives
  double exposed = 0;        // all waits for them, during which nothing was computed
  double hideable = 0;       // the part that backward could have hidden
  double optimizer = 0;
  double waits = 0, allocations = 0;  // calls of CUDA (common/stream.hpp); 0 on the CPU

  double busy() const { return step - exposed; }  // without waits for others
  double compute() const { return step - data - exposed - optimizer; }
  // The fraction of the communication that was hidden, from 0 to 1. NaN if the time is unknown.
  double hidden() const {
    if (!std::isfinite(communication)) return communication;
    return communication <= 0 ? 0 : std::max(0.0, 1.0 - exposed / communication);
  }
  // Adds the times of the collectives that backward has started. `overlaps`: in parallel to it.
  void add(std::span<const std::unique_ptr<Work>> works, bool overlaps) {
    std::vector<double> full, took;
    double held_up = 0;
    for (const auto& work : works) {
      took.push_back(work->elapsed_ms());
      communication += took.back();
      // Without its own thread or stream, communication runs within backward and lengthens it.
      exposed += overlaps ? work->exposed_ms() : took.back();
      // As if no all-reduce had delayed backward.
      full.push_back(work->ready_ms(*works.front()) - held_up);
      if (!overlaps) held_up += took.back();
    }
    hideable = hideable_ms(full, took);
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
  // Each part's median over the steps that are not replayed. NaN if fewer than `least`.
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
    StepTimes medians{.replayed = replayed};
    using T = StepTimes;
    for (double T::*const part : {&T::step, &T::data, &T::communication, &T::exposed,
                                  &T::hideable, &T::optimizer, &T::waits, &T::allocations}) {
      std::vector<double> values;
      for (const StepTimes& step : kept) values.push_back(step.*part);
      medians.*part = kept.size() < least ? std::numeric_limits<double>::quiet_NaN()
                                          : median(std::move(values));
    }
    return medians;
  }

  std::size_t steps_ = 0, every_ = 1;
  std::vector<StepTimes> times_;
};

}  // namespace dist
