// What this file adds: data parallelism in its simplest form, one all-reduce per parameter.
// Builds on: 03's all-reduce, through the process group.
// It stays as the oracle of distributed_data_parallel: same numbers, more messages.
#pragma once

#include "05_ddp_training/data_parallel.hpp"

namespace dist {

class NaiveDataParallel : public DataParallel {
 public:
  NaiveDataParallel(Mlp& module, ProcessGroup& group, const Stream& stream)
      : DataParallel(module, group, stream) {}
  void backward(const Tensor& grad_logits, const Stream& stream) override;
};

}  // namespace dist
