// What this file adds: data parallelism as PyTorch does it. The gradients are grouped into
// buckets, and a bucket's all-reduce runs while backward computes other gradients.
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
  // Called on all ranks. Replaces every grad of `module` with a view of its bucket.
  // With ReduceOp::sum, the loss must already be divided by the number of ranks.
  DistributedDataParallel(Mlp& module, ProcessGroup& group, const Stream& stream,
                          BucketCaps caps = {}, ReduceOp op = ReduceOp::avg);

  const Reducer& reducer() const { return reducer_; }

  // `observer` is called for every gradient that is ready, before the reducer is notified, so
  // the gradient is not averaged yet (used by --explain).
  void observe(GradReadyHook observer) { observer_ = std::move(observer); }

 private:
  void backward_and_average(const Tensor& grad_logits, Accumulate accumulate,
                            const Stream& stream) override;
  std::function<Durations(const Event&)> take_durations() override;

  Reducer reducer_;
  GradReadyHook observer_;
};

// Called on all ranks. `name` is ddp (DistributedDataParallel) or naive (NaiveDataParallel,
// which always averages).
std::unique_ptr<DataParallel> make_data_parallel(const std::string& name, Mlp& module,
                                                 ProcessGroup& group, const Stream& stream,
                                                 BucketCaps caps = {},
                                                 ReduceOp op = ReduceOp::avg);

}  // namespace dist
