// What this file adds: the learning rate of every step. It is a pure function of the step's
// number, so a checkpoint does not need to store it, but only the length of a schedule that has
// one.
#pragma once

#include <cmath>
#include <cstddef>
#include <numbers>
#include <string>

namespace dist {

// Linear warm-up, then constant:
//
//    end         ____________
//               /
//    start     /
//             |   |
//     step    0   warmup_steps
//
// Step 0 uses `start`. Step warmup_steps and all later ones use `end`.
struct LrSchedule {
  double start;
  double end;
  std::size_t warmup_steps;

  double at(std::size_t step) const {
    if (step >= warmup_steps) return end;
    return start +
           (end - start) * static_cast<double>(step) / static_cast<double>(warmup_steps);
  }
};

// Warms up from 0 to `lr`, so the first step does not change the parameters. So does Hugging
// Face's get_linear_schedule_with_warmup; torch.optim.lr_scheduler.LinearLR cannot begin at 0.
inline LrSchedule warmed_up(double lr, std::size_t warmup_steps) {
  return {.start = 0.0, .end = lr, .warmup_steps = warmup_steps};
}

// The linear scaling rule: each step of N ranks uses N times as many samples, so there are 1/N
// as many steps, and each goes N times as far, with the rate `ranks` * `lr`. This is too far at
// the beginning, when the parameters change fast, so the warm-up starts from the rate of one
// rank, `lr`. See Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour",
// 2017, sections 2.1 and 2.2. The rule was derived and measured for SGD; for Adam it is only a
// habit.
inline LrSchedule linearly_scaled(double lr, int ranks, std::size_t warmup_steps) {
  return {.start = lr, .end = lr * ranks, .warmup_steps = warmup_steps};
}

// Warm-up from 0 to `peak`, then half a period of a cosine (Loshchilov and Hutter, 2017), as
// Hugging Face's get_cosine_schedule_with_warmup, which ends at 0:
//
//    peak        __
//               /  \_
//    floor     /     \____________
//             |   |        |
//     step    0   warmup   total_steps
//
struct CosineSchedule {
  double peak;
  double floor;
  std::size_t warmup_steps;
  std::size_t total_steps;  // more than warmup_steps

  double at(std::size_t step) const {
    if (step < warmup_steps) return warmed_up(peak, warmup_steps).at(step);
    if (step >= total_steps) return floor;
    const double part = static_cast<double>(step - warmup_steps) /
                        static_cast<double>(total_steps - warmup_steps);
    return floor + (peak - floor) / 2 * (1 + std::cos(std::numbers::pi * part));
  }
  // For a checkpoint's RunSettings. A run of another length would have had other rates since
  // its warm-up, so it cannot continue this one.
  std::string name() const { return "a cosine of " + std::to_string(total_steps) + " steps"; }
};

}  // namespace dist
