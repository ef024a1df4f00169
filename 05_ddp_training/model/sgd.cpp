#include "05_ddp_training/model/sgd.hpp"

#include "05_ddp_training/model/update_kernels.hpp"

namespace dist {

Sgd::Sgd(std::span<Parameter> parameters, const OptimizerOptions& options, const Stream& stream)
    : Optimizer(parameters, options, stream) {
  if (options.momentum != 0.0) remember("momentum_buffer", stream);
}

void Sgd::update(double lr, const UpdateState* update, const Stream& stream) {
  const SgdFactors factors{.lr = static_cast<float>(lr),
                           .weight_decay = static_cast<float>(options_.weight_decay),
                           .momentum = static_cast<float>(options_.momentum),
                           .one_minus_dampening = static_cast<float>(1.0 - options_.dampening),
                           // The first gradient initializes the buffer without dampening
                           // (torch/optim/sgd.py); *update records whether this is the first
                           // step.
                           .nesterov = options_.nesterov};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    const std::size_t count = parameter.value.numel();
    if (state_.empty()) {
      sgd_step(stream, count, factors, parameter.grad.data(), parameter.value.data(), update);
    } else {
      sgd_momentum_step(stream, count, factors, parameter.grad.data(), parameter.value.data(),
                        state_[i].value.data(), update);
    }
  }
}

}  // namespace dist
