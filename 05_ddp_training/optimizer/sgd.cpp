#include "05_ddp_training/optimizer/sgd.hpp"

#include "05_ddp_training/optimizer/update_kernels.hpp"

namespace dist {

Sgd::Sgd(std::span<Parameter> parameters, const OptimizerOptions& options, const Stream& stream,
         Partners* partners)
    : Optimizer(parameters, options, stream, partners) {
  if (options.momentum != 0.0) remember("momentum_buffer", stream);
}

void Sgd::update(std::span<const UpdateTensors> tensors, const UpdateState* state,
                 const Stream& stream) {
  // The first gradient initializes the buffer without dampening (torch/optim/sgd.py); *state
  // records whether this is the first step.
  const SgdFactors factors{.weight_decay = static_cast<float>(options_.weight_decay),
                           .momentum = static_cast<float>(options_.momentum),
                           .one_minus_dampening = static_cast<float>(1.0 - options_.dampening),
                           .nesterov = options_.nesterov};
  sgd_step(stream, tensors, factors, state);
}

}  // namespace dist
