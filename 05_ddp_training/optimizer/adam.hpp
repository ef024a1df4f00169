// What this file adds: a step of Adam and AdamW, which differ in weight decay (torch/optim/
// adam.py, adamw.py; Kingma and Ba, 2015; Loshchilov and Hutter, 2019).
// Builds on: finite_check, whose decision counts the steps.
#pragma once

#include "05_ddp_training/optimizer/finite_check.hpp"
#include "05_ddp_training/optimizer/optimizer_options.hpp"

#include <cmath>
#include <span>

namespace dist {

// Step number t of all parameters, counted from 1:
//   p = p - lr weight_decay p            (AdamW)    or    g = g + weight_decay p    (Adam)
//   m = beta1 m + (1 - beta1) g
//   v = beta2 v + (1 - beta2) g^2
//   p = p - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// m and v begin with 0 and are too small at first; the two corrections make up for that.
void adam_step(const Stream& stream, std::span<const UpdateTensors> tensors,
               const OptimizerOptions& options, const UpdateState* state);

// The factors of a step that depend on t, in double precision and rounded once, as in PyTorch.
// Called on the device, because only the device knows t.
DIST_HOST_DEVICE inline void prepare_adam(UpdateState& s, double lr, double beta1, double beta2,
                                          double decoupled_decay) {
  const auto t = static_cast<double>(s.steps);
  s.step_size = static_cast<float>(lr / (1.0 - std::pow(beta1, t)));
  s.root_correction = static_cast<float>(std::sqrt(1.0 - std::pow(beta2, t)));
  s.parameter_scale = static_cast<float>(1.0 - lr * decoupled_decay);
}

}  // namespace dist
