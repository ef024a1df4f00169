// What this file adds: a step of SGD with momentum, dampening, Nesterov and weight decay
// (torch/optim/sgd.py; Sutskever et al., 2013, for the momentum).
#pragma once

#include "05_ddp_training/optimizer/finite_check.hpp"
#include "05_ddp_training/optimizer/optimizer_options.hpp"

#include <span>

namespace dist {

// A step of all parameters:
//   g = g + weight_decay p
//   buffer = momentum buffer + (1 - dampening) g,    in the first step: buffer = g
//   p = p - lr (nesterov ? g + momentum buffer : buffer)
// Without momentum there is no buffer (UpdateTensors::m), and p = p - lr g.
void sgd_step(const Stream& stream, std::span<const UpdateTensors> tensors,
              const OptimizerOptions& options, const UpdateState* state);

}  // namespace dist
