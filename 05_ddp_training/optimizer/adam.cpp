#include "05_ddp_training/optimizer/adam.hpp"

#include "05_ddp_training/optimizer/update_kernels.hpp"

namespace dist {

Adam::Adam(std::span<Parameter> parameters, const OptimizerOptions& options,
           const Stream& stream, Partners* partners)
    : Optimizer(parameters, options, stream, partners) {
  remember("exp_avg", stream);     // running mean of the gradient
  remember("exp_avg_sq", stream);  // running mean of its square
}

void Adam::update(std::span<const UpdateTensors> tensors, const UpdateState* state,
                  const Stream& stream) {
  const auto [beta1, beta2] = options_.betas;
  // Adam adds the decay to the gradient. Dividing by the square root then cancels most of the
  // decay where gradients are large. AdamW subtracts the decay from the parameter itself: the
  // decay is "decoupled" (Loshchilov and Hutter, 2019).
  const bool decoupled = options_.name == "adamw";
  // The factors that depend on the learning rate or on the number of steps are in *state.
  const AdamFactors factors{
      .beta1 = static_cast<float>(beta1),
      .one_minus_beta1 = static_cast<float>(1.0 - beta1),
      .beta2 = static_cast<float>(beta2),
      .one_minus_beta2 = static_cast<float>(1.0 - beta2),
      .eps = static_cast<float>(options_.eps),
      .gradient_decay = static_cast<float>(decoupled ? 0.0 : options_.weight_decay)};
  adam_step(stream, tensors, factors, state);
}

}  // namespace dist
