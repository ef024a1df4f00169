#include "05_ddp_training/model/adam.hpp"

#include "05_ddp_training/model/update_kernels.hpp"

namespace dist {

Adam::Adam(std::span<Parameter> parameters, const OptimizerOptions& options,
           const Stream& stream)
    : Optimizer(parameters, options, stream) {
  remember("exp_avg", stream);     // running mean of the gradient
  remember("exp_avg_sq", stream);  // running mean of its square
}

void Adam::update(double lr, const UpdateState* update, const Stream& stream) {
  const auto [beta1, beta2] = options_.betas;
  const double decay = options_.weight_decay;
  // Adam adds the decay to the gradient. Dividing by the square root then cancels most of the
  // decay where gradients are large. AdamW subtracts the decay from the parameter itself: the
  // decay is "decoupled" (Loshchilov and Hutter, 2019).
  const bool decoupled = options_.name == "adamw";
  // The factors that depend on the number of steps taken are stored in *update.
  const AdamFactors factors{
      .beta1 = static_cast<float>(beta1),
      .one_minus_beta1 = static_cast<float>(1.0 - beta1),
      .beta2 = static_cast<float>(beta2),
      .one_minus_beta2 = static_cast<float>(1.0 - beta2),
      .eps = static_cast<float>(options_.eps),
      .gradient_decay = static_cast<float>(decoupled ? 0.0 : decay),
      .parameter_scale = static_cast<float>(decoupled ? 1.0 - lr * decay : 1.0)};
  const std::size_t count = parameters_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Parameter& parameter = parameters_[i];
    adam_step(stream, parameter.value.numel(), factors, parameter.grad.data(),
              parameter.value.data(), state_[i].value.data(), state_[count + i].value.data(),
              update);
  }
}

}  // namespace dist
