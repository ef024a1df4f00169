#include "05_ddp_training/optimizer/sgd.hpp"

#include "05_ddp_training/optimizer/over_tensors.hpp"

#include <cmath>

namespace dist {
namespace {

// As in adam.cpp, a term whose factor is 0 is omitted.
struct SgdStep {
  float weight_decay;
  DIST_HOST_DEVICE void operator()(const UpdateTensors& t, const UpdateState& s,
                                   std::size_t i) const {
    const float p = t.parameter[i];
    const float raw = t.gradient[i] * s.gradient_scale;
    const float g = weight_decay == 0.0F ? raw : std::fma(p, weight_decay, raw);
    t.parameter[i] = std::fma(g, -s.lr, p);
  }
};

struct SgdMomentumStep {
  float weight_decay, momentum, one_minus_dampening;
  bool nesterov;
  DIST_HOST_DEVICE void operator()(const UpdateTensors& t, const UpdateState& s,
                                   std::size_t i) const {
    const float p = t.parameter[i];
    const float raw = t.gradient[i] * s.gradient_scale;
    const float g = weight_decay == 0.0F ? raw : std::fma(p, weight_decay, raw);
    const bool is_first = s.steps == 1;
    const float b = is_first ? g : std::fma(g, one_minus_dampening, t.m[i] * momentum);
    t.m[i] = b;
    t.parameter[i] = std::fma(nesterov ? std::fma(b, momentum, g) : b, -s.lr, p);
  }
};

}  // namespace

void sgd_step(const Stream& stream, std::span<const UpdateTensors> tensors,
              const OptimizerOptions& options, const UpdateState* state) {
  const auto weight_decay = static_cast<float>(options.weight_decay);
  if (options.momentum == 0.0) return take_step(stream, tensors, SgdStep{weight_decay}, state);
  take_step(stream, tensors,
            SgdMomentumStep{weight_decay, static_cast<float>(options.momentum),
                            static_cast<float>(1.0 - options.dampening), options.nesterov},
            state);
}

}  // namespace dist
