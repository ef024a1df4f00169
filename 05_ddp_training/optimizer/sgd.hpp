// What this file adds: torch.optim.SGD with momentum, dampening, Nesterov and weight decay.
// Builds on: update_kernels, sgd_step and sgd_momentum_step.
#pragma once

#include "05_ddp_training/optimizer/optimizer.hpp"

namespace dist {

class Sgd : public Optimizer {
 public:
  Sgd(std::span<Parameter> parameters, const OptimizerOptions& options, const Stream& stream,
      Partners* partners);

 private:
  void update(std::span<const UpdateTensors> tensors, const UpdateState* state,
              const Stream& stream) override;
};

}  // namespace dist
