// What this file adds: data parallelism in its simplest form, one all-reduce per parameter,
// after backward is done.
// Builds on: 03's all-reduce, through the process group.
// It stays as the oracle of distributed_data_parallel: same numbers, more messages, none
// hidden.
#pragma once

#include "05_ddp_training/data_parallel/data_parallel.hpp"

#include <memory>
#include <vector>

namespace dist {

class NaiveDataParallel : public DataParallel {
 public:
  NaiveDataParallel(Mlp& module, ProcessGroup& group, const Stream& stream)
      : DataParallel(module, group, stream) {}

 private:
  void backward_and_average(const Tensor& grad_logits, Accumulate accumulate,
                            const Stream& stream) override;
  std::function<Durations(const Event&)> take_durations() override;

  std::vector<std::shared_ptr<Work>> works_;
};

}  // namespace dist
