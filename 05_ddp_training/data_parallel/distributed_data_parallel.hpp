// What this file adds: data parallelism as PyTorch does it. It wraps a model that knows nothing
// about ranks, and adds messages in two places only: construction and the backward pass.
// Builds on: data_parallel (what a training loop calls); reducer (groups gradients into
// buckets, whose all-reduces run while backward computes other gradients).
#pragma once

#include "05_ddp_training/data_parallel/data_parallel.hpp"
#include "05_ddp_training/data_parallel/reducer.hpp"

#include <memory>
#include <vector>

namespace dist {

class DistributedDataParallel : public DataParallel {
 public:
  // Called on all ranks. Replaces every grad of `module` with a view of its bucket.
  DistributedDataParallel(Mlp& module, ProcessGroup& group, const Stream& stream,
                          BucketCaps caps = {});

  void backward(const Tensor& grad_logits, const Batch::Place& place,
                const Stream& stream) override;

  std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                            const Stream& stream) override {
    return DataParallel::make_optimizer(options, buckets(), group_.comm().size(), stream);
  }
  const std::vector<BucketPlan>& buckets() const { return reducer_.plans(); }

 private:
  Reducer reducer_;
};

}  // namespace dist
