// The flags of the optimizer: PyTorch's names, meanings and defaults, and its refusals.
#pragma once

#include "common/command_line.hpp"

#include <array>
#include <cstddef>
#include <string>

namespace dist {

struct OptimizerOptions {
  std::string name = "adam";
  double lr = 1e-3;           // what the schedule (lr_schedule) starts from
  double weight_decay = 0.0;  // adam and sgd: on the gradient; adamw: on the parameter

  // SGD
  double momentum = 0.0;
  double dampening = 0.0;
  bool nesterov = false;

  // Adam and AdamW
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;

  std::size_t warmup_steps = 0;

  // Adds --optimizer and --lr, for the short help.
  void declare(CommandLine& command_line);
  // Adds the others, and a check of those that must fit each other. It also puts in place the
  // defaults that depend on the optimizer.
  void declare_advanced(CommandLine& command_line);
};

}  // namespace dist
