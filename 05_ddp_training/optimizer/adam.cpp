#include "05_ddp_training/optimizer/adam.hpp"

#include "05_ddp_training/optimizer/over_tensors.hpp"

namespace dist {
namespace {

struct AdamStep {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float eps, weight_decay;

  DIST_HOST_DEVICE void operator()(const UpdateTensors& t, const UpdateState& s,
                                   std::size_t i) const {
    const float p = t.parameter[i] * s.parameter_scale;
    const float raw = t.gradient[i] * s.gradient_scale;
    // Like PyTorch, omit the term if its factor is 0, because 0 times an infinite parameter is
    // not 0. The compiler evaluates such a condition outside the loop.
    const float g = weight_decay == 0.0F ? raw : std::fma(p, weight_decay, raw);
    t.m[i] = std::fma(g, one_minus_beta1, t.m[i] * beta1);
    t.v[i] = std::fma(one_minus_beta2 * g, g, t.v[i] * beta2);
    // Like PyTorch, add eps after the correction and the root, not inside the root.
    const float denominator = std::sqrt(t.v[i]) / s.root_correction + eps;
    t.parameter[i] = p + (-s.step_size * t.m[i]) / denominator;
  }
};

}  // namespace

void adam_step(const Stream& stream, std::span<const UpdateTensors> tensors,
               const OptimizerOptions& options, const UpdateState* state) {
  const auto [beta1, beta2] = options.betas;
  // Adam adds the decay to the gradient. Dividing by the square root then cancels most of the
  // decay where gradients are large. AdamW subtracts the decay from the parameter itself
  // (parameter_scale): the decay is "decoupled".
  const double weight_decay = options.name == "adamw" ? 0.0 : options.weight_decay;
  take_step(stream, tensors,
            AdamStep{static_cast<float>(beta1), static_cast<float>(1.0 - beta1),
                     static_cast<float>(beta2), static_cast<float>(1.0 - beta2),
                     static_cast<float>(options.eps), static_cast<float>(weight_decay)},
            state);
}

}  // namespace dist
