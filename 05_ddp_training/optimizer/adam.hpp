// What this file adds: a step of Adam and AdamW, which differ in weight decay (torch/optim/
// adam.py, adamw.py; Kingma and Ba, 2015; Loshchilov and Hutter, 2019).
//
// Step number t of all parameters, counted from 1:
//   p = p - lr weight_decay p            (AdamW)    or    g = g + weight_decay p    (Adam)
//   m = beta1 m + (1 - beta1) g
//   v = beta2 v + (1 - beta2) g^2
//   p = p - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// m and v begin with 0 and are too small at first; the two corrections make up for that.
//
// Adam adds the decay to the gradient. Dividing by the square root then cancels most of the
// decay where gradients are large. AdamW subtracts the decay from the parameter itself: the
// decay is "decoupled".
#pragma once

#include "05_ddp_training/optimizer/optimizer_options.hpp"
#include "05_ddp_training/optimizer/update.hpp"

#include <cmath>

namespace dist {

// The factors of a step that depend on t, in double precision and rounded once, as in PyTorch.
// Called on the device, because only the device knows t.
DIST_HOST_DEVICE inline void prepare_adam(UpdateState& s, double lr, double beta1, double beta2,
                                          double decoupled_decay) {
  const auto t = static_cast<double>(s.steps);
  s.step_size = static_cast<float>(lr / (1.0 - std::pow(beta1, t)));
  s.root_correction = static_cast<float>(std::sqrt(1.0 - std::pow(beta2, t)));
  s.parameter_scale = static_cast<float>(1.0 - lr * decoupled_decay);
}

// The step of one element.
struct AdamStep {
  explicit AdamStep(const OptimizerOptions& o)
      : beta1(static_cast<float>(o.betas[0])),
        one_minus_beta1(static_cast<float>(1.0 - o.betas[0])),
        beta2(static_cast<float>(o.betas[1])),
        one_minus_beta2(static_cast<float>(1.0 - o.betas[1])),
        eps(static_cast<float>(o.eps)),
        weight_decay(o.kind == OptimizerKind::adamw ? 0.0F
                                                    : static_cast<float>(o.weight_decay)) {}

  DIST_HOST_DEVICE void operator()(const UpdateTensors& t, const UpdateState& s,
                                   std::size_t i) const {
    const float p = t.decays ? t.parameter[i] * s.parameter_scale : t.parameter[i];
    const float raw = t.gradient[i] * s.gradient_scale;
    // Like PyTorch, omit the term if its factor is 0, because 0 times an infinite parameter is
    // not 0. The compiler evaluates such a condition outside the loop.
    const bool adds_decay = t.decays && weight_decay != 0.0F;
    const float g = adds_decay ? std::fma(p, weight_decay, raw) : raw;
    t.m[i] = std::fma(g, one_minus_beta1, t.m[i] * beta1);
    t.v[i] = std::fma(one_minus_beta2 * g, g, t.v[i] * beta2);
    // Like PyTorch, add eps after the correction and the root, not inside the root.
    const float denominator = std::sqrt(t.v[i]) / s.root_correction + eps;
    t.parameter[i] = p + (-s.step_size * t.m[i]) / denominator;
  }

  float beta1, one_minus_beta1, beta2, one_minus_beta2, eps, weight_decay;
};

}  // namespace dist
