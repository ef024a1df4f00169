#include "05_ddp_training/trainer/step_times.hpp"

#include "01_send_recv/measure.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace dist {
namespace {

// At least half of the steps of a short run are kept.
std::size_t steps_left_out(std::size_t steps) {
  return std::min<std::size_t>(5, steps / 2);
}

// The median over the steps that know this part; NaN if none does. A step that is replayed as a
// whole (StepGraph) knows only how long it took.
double median_of(const std::vector<StepTimes>& steps, double StepTimes::*part) {
  std::vector<double> values;
  for (std::size_t i = steps_left_out(steps.size()); i < steps.size(); ++i) {
    if (!std::isnan(steps[i].*part)) values.push_back(steps[i].*part);
  }
  if (values.empty() && !steps.empty()) return std::numeric_limits<double>::quiet_NaN();
  return median(std::move(values));
}

}  // namespace

double StepTimes::hidden() const {
  if (!std::isfinite(communication)) return communication;
  if (communication <= 0) return 0;
  return std::max(0.0, 1.0 - exposed / communication);
}

void StepTimeline::add(const StepTimes& times, std::size_t samples) {
  times_.push_back(times);
  samples_.push_back(samples);
}

StepTimes StepTimeline::typical() const {
  return {.step = median_of(times_, &StepTimes::step),
          .data = median_of(times_, &StepTimes::data),
          .communication = median_of(times_, &StepTimes::communication),
          .exposed = median_of(times_, &StepTimes::exposed),
          .hideable = median_of(times_, &StepTimes::hideable),
          .optimizer = median_of(times_, &StepTimes::optimizer),
          .waits = median_of(times_, &StepTimes::waits),
          .allocations = median_of(times_, &StepTimes::allocations)};
}

double StepTimeline::samples_per_second() const {
  double seconds = 0;
  double samples = 0;
  for (std::size_t i = steps_left_out(times_.size()); i < times_.size(); ++i) {
    seconds += 1e-3 * times_[i].step;
    samples += static_cast<double>(samples_[i]);
  }
  return seconds > 0 ? samples / seconds : 0.0;
}

}  // namespace dist
