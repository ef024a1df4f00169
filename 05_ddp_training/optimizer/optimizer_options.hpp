// The optimizer's flags, with PyTorch's names, meanings, defaults and restrictions.
#pragma once

#include "common/command_line.hpp"

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

  // Adds --optimizer and --lr, which the short help shows.
  void declare(CommandLine& command_line);
  // Adds the other flags, and a check of their consistency. The check also sets the defaults
  // that depend on the optimizer.
  void declare_advanced(CommandLine& command_line);
};

}  // namespace dist
