#include "05_ddp_training/trainer/report/step_times.hpp"

#include "01_send_recv/measure.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace dist {
namespace {

// At least half of the steps of a short run are kept.
std::size_t steps_left_out(std::size_t steps) {
  return std::min<std::size_t>(5, steps / 2);
}

double median_part(const std::vector<StepTimes>& steps, double StepTimes::*part) {
  if (steps.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> values;
  for (const StepTimes& step : steps) values.push_back(step.*part);
  return median(std::move(values));
}

}  // namespace

double StepTimes::hidden() const {
  if (!std::isfinite(communication)) return communication;
  if (communication <= 0) return 0;
  return std::max(0.0, 1.0 - exposed / communication);
}

template <class Keep>
StepTimes StepTimeline::median_of(Keep keep, std::size_t least) const {
  if (times_.empty()) return {};
  std::size_t full = 0;
  for (const StepTimes& step : times_) full = std::max(full, step.samples);
  std::vector<StepTimes> kept;
  for (std::size_t i = steps_left_out(times_.size()); i < times_.size(); ++i) {
    if (times_[i].samples == full && keep(times_[i])) kept.push_back(times_[i]);
  }
  if (kept.size() < least) kept.clear();
  return {.samples = full,
          .step = median_part(kept, &StepTimes::step),
          .data = median_part(kept, &StepTimes::data),
          .communication = median_part(kept, &StepTimes::communication),
          .exposed = median_part(kept, &StepTimes::exposed),
          .hideable = median_part(kept, &StepTimes::hideable),
          .optimizer = median_part(kept, &StepTimes::optimizer),
          .waits = median_part(kept, &StepTimes::waits),
          .allocations = median_part(kept, &StepTimes::allocations)};
}

StepTimes StepTimeline::typical() const {
  StepTimes times = median_of([](const StepTimes& step) { return step.replayed; }, 1);
  times.replayed = times.step > 0;
  return times.replayed ? times : plain();
}

StepTimes StepTimeline::plain(std::size_t least) const {
  return median_of([](const StepTimes& step) { return !step.replayed; }, least);
}

double StepTimeline::samples_per_second() const {
  double seconds = 0;
  double samples = 0;
  for (std::size_t i = steps_left_out(times_.size()); i < times_.size(); ++i) {
    seconds += 1e-3 * times_[i].step;
    samples += static_cast<double>(times_[i].samples);
  }
  return seconds > 0 ? samples / seconds : 0.0;
}

}  // namespace dist
