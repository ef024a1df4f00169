// What this file adds: the simplest data parallelism, one all-reduce per parameter at the end.
// Builds on: lesson 3's all-reduce, through the process group.
// The tests compare distributed_data_parallel with this version, which gives the same numbers
// but sends more messages and hides none of them.
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
