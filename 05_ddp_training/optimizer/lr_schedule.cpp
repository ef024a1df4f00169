#include "05_ddp_training/optimizer/lr_schedule.hpp"

namespace dist {

double LrSchedule::at(std::size_t step) const {
  if (step >= warmup_steps) return end;
  return start + (end - start) * static_cast<double>(step) / static_cast<double>(warmup_steps);
}

LrSchedule warmed_up(double lr, std::size_t warmup_steps) {
  return {.start = 0.0, .end = lr, .warmup_steps = warmup_steps};
}

LrSchedule linearly_scaled(double lr, int ranks, std::size_t warmup_steps) {
  return {.start = lr, .end = lr * ranks, .warmup_steps = warmup_steps};
}

}  // namespace dist
