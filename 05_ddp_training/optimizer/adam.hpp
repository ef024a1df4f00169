// What this file adds: torch.optim.Adam and torch.optim.AdamW, which differ in weight decay.
// Builds on: update_kernels, adam_step.
#pragma once

#include "05_ddp_training/optimizer/optimizer.hpp"

namespace dist {

class Adam : public Optimizer {
 public:
  // AdamW if options.name is "adamw".
  Adam(std::span<Parameter> parameters, const OptimizerOptions& options, const Stream& stream,
       Partners* partners);

 private:
  void update(std::span<const UpdateTensors> tensors, const UpdateState* state,
              const Stream& stream) override;
};

}  // namespace dist
