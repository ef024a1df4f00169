// What an optimizer can be told, with PyTorch's names, meanings and defaults.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace dist {

struct OptimizerOptions {
  std::string name = "adam";
  double lr = 1e-3;           // the base rate of the schedule (lr_schedule)
  double weight_decay = 0.0;  // acts on the gradient (adam, sgd) or the parameter (adamw)

  // SGD
  double momentum = 0.0;
  double dampening = 0.0;
  bool nesterov = false;

  // Adam and AdamW
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;

  std::size_t warmup_steps = 0;
  double clip_norm = 0;  // the largest norm of all gradients together; 0: no limit
};

}  // namespace dist
