// What this file adds: data parallelism as PyTorch does it. It wraps a model that knows nothing
// about ranks, and adds messages in three places only: construction, the backward pass, and the
// loss.
// Builds on: reducer (groups gradients into buckets, whose all-reduces run while backward
// computes other gradients).
#pragma once

#include "05_ddp_training/data_parallel/reducer.hpp"
#include "05_ddp_training/model/loss.hpp"

#include <optional>
#include <span>

namespace dist {

// What a training loop calls, whichever kind of data parallelism it uses. The other kinds are
// in sharding/ and deterministic/.
class DataParallel {
 public:
  virtual ~DataParallel() = default;

  virtual Tensor forward(const Tensor& input, const Stream& stream) = 0;
  // Called on all ranks. If the loss is that of the last batch of a step, work queued on
  // `stream` after this call sees every grad as the mean over the ranks, and loss.numbers() as
  // well: rank 0's own loss covers only its samples. Otherwise the gradients stay on this rank
  // until the call that ends the step, and nothing is sent (no_sync in PyTorch).
  virtual void backward(const CrossEntropyLoss& loss, const Stream& stream) = 0;
  // What the last backward pass sent, if it ended a step; nullopt if that was already taken.
  virtual std::optional<Communication> take_communication() = 0;
};

// Called on all ranks. With the same --seed on all ranks, the parameters are already equal.
// With different seeds, or a file that only rank 0 has read, the models would otherwise stay
// different, because equal updates preserve their differences.
void broadcast_parameters(Mlp& module, ProcessGroup& group, const Stream& stream);

class DistributedDataParallel : public DataParallel {
 public:
  // Called on all ranks. Broadcasts rank 0's parameters, and replaces every grad of `module`
  // with a view of its bucket. `op` is avg, or sum if the loss is divided by the number of
  // ranks.
  DistributedDataParallel(Mlp& module, ProcessGroup& group, const Stream& stream,
                          BucketCaps caps = {}, ReduceOp op = ReduceOp::avg);

  Tensor forward(const Tensor& input, const Stream& stream) override;
  void backward(const CrossEntropyLoss& loss, const Stream& stream) override {
    backward(loss.grad(), stream, loss.place(), loss.numbers());
  }
  // The same for the gradient of any function of the logits. `numbers` are averaged, too.
  void backward(const Tensor& grad_logits, const Stream& stream, const Batch::Place& place = {},
                std::span<double> numbers = {});
  std::optional<Communication> take_communication() override {
    return reducer_.take_communication();
  }

  const Reducer& reducer() const { return reducer_; }

 private:
  Mlp& module_;
  Reducer reducer_;
};

}  // namespace dist
