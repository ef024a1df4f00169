// What this file adds: one all-reduce for all gradients. Every gradient is a window on one flat
// tensor, so that backward writes straight into the message: nothing is copied in or out.
// Builds on: Tensor's narrow and view; 03's all-reduce, through the process group. PyTorch
// calls the flat tensor a bucket, and the windows gradient_as_bucket_view.
#pragma once

#include "05_ddp_training/data_parallel.hpp"

namespace dist {

class DistributedDataParallel : public DataParallel {
 public:
  // Called on all ranks. Replaces the grad of every parameter of `module` by a window.
  DistributedDataParallel(Mlp& module, ProcessGroup& group, const Stream& stream);
  void backward(const Tensor& grad_logits, const Stream& stream) override;

 private:
  Tensor bucket_;
};

}  // namespace dist
