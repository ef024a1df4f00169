// What this file adds: the learning rate of every step, a pure function of the step's number,
// so that a run that goes on from a checkpoint needs to keep nothing.
#pragma once

#include <cstddef>

namespace dist {

// Linear warm-up, then constant:
//
//    end         ____________
//               /
//    start     /
//             |   |
//     step    0   warmup_steps
//
// Step 0 takes `start`, step warmup_steps and all later ones take `end`.
struct LrSchedule {
  double start;
  double end;
  std::size_t warmup_steps;

  double at(std::size_t step) const;
};

// `lr`, warmed up from 0: the first step moves nothing. Hugging Face's
// get_linear_schedule_with_warmup does the same. (torch.optim.lr_scheduler.LinearLR refuses to
// start from 0.)
LrSchedule warmed_up(double lr, std::size_t warmup_steps);

// The linear scaling rule: N ranks take steps over N times as many samples, so there are N
// times fewer of them, and each goes N times as far: `ranks` * `lr`. Early on, when the
// parameters change fast, that is too far; so the warm-up starts from the rate of one rank,
// `lr`. Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", 2017,
// sections 2.1 and 2.2. Derived and measured for SGD; for Adam it is a habit at best.
LrSchedule linearly_scaled(double lr, int ranks, std::size_t warmup_steps);

}  // namespace dist
