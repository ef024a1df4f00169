// What this file adds: data parallelism as PyTorch does it: gradients lie in buckets, and a
// bucket's all-reduce runs beside the rest of backward.
// Builds on: reducer.
#pragma once

#include "05_ddp_training/data_parallel/data_parallel.hpp"
#include "05_ddp_training/data_parallel/reducer.hpp"

#include <memory>
#include <string>
#include <utility>

namespace dist {

class DistributedDataParallel : public DataParallel {
 public:
  // Called on all ranks. Replaces the grad of every parameter of `module` by a window.
  DistributedDataParallel(Mlp& module, ProcessGroup& group, const Stream& stream,
                          BucketCaps caps = {});

  const Reducer& reducer() const { return reducer_; }

  // Told of every gradient that is ready, just before the reducer is: the gradient is this
  // rank's own still (explain).
  void observe(GradReadyHook observer) { observer_ = std::move(observer); }

 private:
  void backward_and_average(const Tensor& grad_logits, Accumulate accumulate,
                            const Stream& stream) override;
  std::function<Durations(const Event&)> take_durations() override;

  Reducer reducer_;
  GradReadyHook observer_;
};

// Called on all ranks. `name` is ddp (DistributedDataParallel) or naive (NaiveDataParallel).
std::unique_ptr<DataParallel> make_data_parallel(const std::string& name, Mlp& module,
                                                 ProcessGroup& group, const Stream& stream,
                                                 BucketCaps caps = {});

}  // namespace dist
