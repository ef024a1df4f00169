// What this file adds: data parallelism as PyTorch does it. It wraps a model that knows nothing
// about ranks, and adds messages in two places only: construction and the backward pass, which
// also averages the loss.
// Builds on: reducer (groups gradients into buckets, whose all-reduces run while backward
// computes other gradients).
#pragma once

#include "05_ddp_training/data_parallel/reducer.hpp"
#include "05_ddp_training/model/loss.hpp"

#include <optional>
#include <span>
#include <utility>

namespace dist {

// What a training loop calls, whichever kind of data parallelism it uses. The other kinds are
// in sharding/ and deterministic/.
class DataParallel {
 public:
  virtual ~DataParallel() = default;

  Tensor forward(const Tensor& input, const Stream& stream);
  // Called on all ranks. If the loss is that of the last batch of a step, work queued on
  // `stream` after this call sees every grad as the mean over the ranks, and loss.numbers() as
  // well: rank 0's own loss covers only its samples. Otherwise the gradients stay on this rank
  // until the call that ends the step, and nothing is sent (no_sync in PyTorch).
  virtual void backward(const CrossEntropyLoss& loss, const Stream& stream) = 0;
  // What the last backward pass sent, if it ended a step; nullopt if that was already taken.
  std::optional<Communication> take_communication() {
    return std::exchange(sent_, std::nullopt);
  }

 protected:
  // Called on all ranks. Broadcasts rank 0's parameters. Ranks that drew them with different
  // seeds, or read different files, would otherwise stay different, because equal updates
  // preserve their differences.
  DataParallel(Mlp& module, ProcessGroup& group, const Stream& stream);

  Mlp& module_;
  std::optional<Communication> sent_;
};

class DistributedDataParallel : public DataParallel {
 public:
  // Called on all ranks. Replaces every grad of `module` with a view of its bucket. `op` is
  // avg, or sum if the loss is divided by the number of ranks.
  DistributedDataParallel(Mlp& module, ProcessGroup& group, const Stream& stream,
                          BucketCaps caps = {}, ReduceOp op = ReduceOp::avg);

  void backward(const CrossEntropyLoss& loss, const Stream& stream) override {
    backward(loss.grad(), stream, loss.place(), loss.numbers());
  }
  // The same for the gradient of any function of the logits. `numbers` are averaged, too.
  void backward(const Tensor& grad_logits, const Stream& stream, const Batch::Place& place = {},
                std::span<double> numbers = {});

  const std::vector<BucketPlan>& buckets() const { return reducer_.plans(); }

 private:
  Reducer reducer_;
};

}  // namespace dist
