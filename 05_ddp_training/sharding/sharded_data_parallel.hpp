// What this file adds: data parallelism in which each rank keeps only a part of the optimizer's
// state, the gradients, or even the parameters (ZeRO, PyTorch's FSDP).
// Builds on: shard (which part is whose); distributed_data_parallel, which sends the same
// buckets, but whole.
// Look at: before_layer, which makes room for gradients and fetches parameters just in time.
// Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models" (2020).
//
// An all-reduce is a reduce-scatter and an all-gather. DDP's optimizer works after both, and
// every rank does the same work. Here it works between the two, each rank on its own part:
//
//   DDP          backward | reduce-scatter | all-gather        | update everything
//   optimizer    backward | reduce-scatter | update my part    | all-gather of parameters
//   gradients    the same, but a whole bucket of gradients exists only while it is filled
//   parameters   a whole bucket of parameters exists only while its layers are computed, so
//                forward and backward each gather all of them
//
// Every number of the result is computed by the same additions as with DDP over the ring, so
// the parameters are the same, bit for bit.
#pragma once

#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/sharding/shard.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace dist {

class ShardedDataParallel : public DataParallel {
 public:
  // Called on all ranks. Replaces the values and grads of `module` and of the shard's parts.
  // `op` is avg, or sum if the loss is divided by the number of ranks. All arguments must
  // outlive this.
  ShardedDataParallel(Mlp& module, ProcessGroup& group, const Stream& stream, Shard& shard,
                      ReduceOp op);
  ~ShardedDataParallel() override { module_.before_layer({}); }

  Tensor forward(const Tensor& input, const Stream& stream) override;
  void backward(const CrossEntropyLoss& loss, const Stream& stream) override;
  std::optional<Communication> take_communication() override {
    return std::exchange(step_, std::nullopt);
  }

 private:
  // Memory for whole buckets, in turn: bucket b uses slot b modulo kSlots. A layer needs at
  // most two buckets at a time, and a third one may be on its way.
  static constexpr std::size_t kSlots = 3;
  using Slots = std::array<Tensor, kSlots>;
  // Empty slots if `level` is not divided.
  Slots make_slots(ShardLevel level);

  struct Bucket {
    Tensor gradients;                // of the whole bucket; in a slot if gradients are divided
    Tensor my_gradients;             // my chunk
    Tensor values;                   // of the whole bucket; in a slot if parameters are divided
    Tensor my_values;                // my chunk
    std::size_t missing = 0;         // gradients that backward has not finished
    std::shared_ptr<Work> reduced;   // null: not started, or my_gradients are complete
    std::unique_ptr<Work> gathered;  // null: not started, or the values are complete
  };

  bool divides(ShardLevel level) const { return shard_.level() >= level; }
  void before_layer(std::size_t layer);
  void gradient_is_ready(std::size_t parameter);
  void finish_gradients(std::size_t bucket);
  void fetch_values(std::size_t bucket);

  Mlp& module_;
  ProcessGroup& group_;
  const Stream& stream_;
  Shard& shard_;
  ReduceOp op_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // for each parameter
  // With divided parameters: the bucket whose values are in each slot.
  std::array<std::optional<std::size_t>, kSlots> resident_;
  std::optional<Accumulate> backward_;  // set during backward
  std::span<double> numbers_;           // the next reduce-scatter takes them along
  std::optional<Communication> step_;
};

}  // namespace dist
