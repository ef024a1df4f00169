// What this file adds: a step of SGD with momentum, dampening, Nesterov and weight decay
// (torch/optim/sgd.py; Sutskever et al., 2013, for the momentum).
//
// A step of all parameters:
//   g = g + weight_decay p
//   buffer = momentum buffer + (1 - dampening) g,    in the first step: buffer = g
//   p = p - lr (nesterov ? g + momentum buffer : buffer)
// Without momentum there is no buffer (UpdateTensors::m), and p = p - lr g.
#pragma once

#include "05_ddp_training/optimizer/optimizer_options.hpp"
#include "05_ddp_training/optimizer/update.hpp"

#include <cmath>

namespace dist {

// The step of one element. As in adam.hpp, a term whose factor is 0 is omitted.
struct SgdStep {
  explicit SgdStep(const OptimizerOptions& o)
      : weight_decay(static_cast<float>(o.weight_decay)) {}

  DIST_HOST_DEVICE void operator()(const UpdateTensors& t, const UpdateState& s,
                                   std::size_t i) const {
    const float p = t.parameter[i];
    const float raw = t.gradient[i] * s.gradient_scale;
    const bool adds_decay = t.decays && weight_decay != 0.0F;
    const float g = adds_decay ? std::fma(p, weight_decay, raw) : raw;
    t.parameter[i] = std::fma(g, -s.lr, p);
  }

  float weight_decay;
};

struct SgdMomentumStep {
  explicit SgdMomentumStep(const OptimizerOptions& o)
      : weight_decay(static_cast<float>(o.weight_decay)),
        momentum(static_cast<float>(o.momentum)),
        one_minus_dampening(static_cast<float>(1.0 - o.dampening)),
        nesterov(o.nesterov) {}

  DIST_HOST_DEVICE void operator()(const UpdateTensors& t, const UpdateState& s,
                                   std::size_t i) const {
    const float p = t.parameter[i];
    const float raw = t.gradient[i] * s.gradient_scale;
    const bool adds_decay = t.decays && weight_decay != 0.0F;
    const float g = adds_decay ? std::fma(p, weight_decay, raw) : raw;
    const bool is_first = s.steps == 1;
    const float b = is_first ? g : std::fma(g, one_minus_dampening, t.m[i] * momentum);
    t.m[i] = b;
    t.parameter[i] = std::fma(nesterov ? std::fma(b, momentum, g) : b, -s.lr, p);
  }

  float weight_decay, momentum, one_minus_dampening;
  bool nesterov;
};

}  // namespace dist
