// What this file adds: data parallelism in which each rank keeps only a part of the optimizer's
// state, the gradients, or even the parameters (ZeRO, PyTorch's FSDP).
// Builds on: shard (which part is whose); reducer, with reduce-scatters.
// Look at: before_layer, which makes room for gradients and fetches parameters just in time.
//
// An all-reduce is a reduce-scatter and an all-gather. DDP's optimizer works after both, and
// every rank does the same work. Here it works between the two, each rank on its own part:
//
//   optimizer    backward | reduce-scatter | update my part | all-gather of parameters
//   gradients    the same, but a whole bucket of gradients exists only while it is filled
//   parameters   a whole bucket of parameters exists only while its layers are computed, so
//                forward and backward each gather all of them
//
// Every number is computed by the same additions as with DDP over the ring, so the bits are the
// same.
#pragma once

#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/sharding/shard.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace dist {

class ShardedDataParallel : public DataParallel {
 public:
  // Called on all ranks. Replaces the values and grads of `module`. All must outlive this.
  ShardedDataParallel(Mlp& module, ProcessGroup& group, const Stream& stream, ShardLevel level,
                      BucketCaps caps);
  ~ShardedDataParallel() override { module_.before_layer({}); }

  void backward(const Tensor& grad_logits, const Batch::Place& place,
                const Stream& stream) override;

  std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                            const Stream& stream) override;
  Kept kept() const override;
  Tensor gather(std::size_t parameter, const Tensor& mine,
                const Stream& stream) const override {
    return shard_.gather(parameter, mine, stream);
  }
  void keep_part(std::size_t parameter, const Tensor& whole, const Tensor& mine,
                 const Stream& stream) const override {
    shard_.keep_part(parameter, whole, mine, stream);
  }

 private:
  struct Bucket {
    Tensor values;                   // of the whole bucket; in a slot if parameters are divided
    Tensor my_values, my_gradients;  // my chunk
    std::unique_ptr<Work> gathered;  // null: not started, or the values are complete
  };

  // Memory for whole buckets, in turn. A layer needs at most two buckets at a time, and a third
  // one may be on its way. Empty if `level` is not divided.
  static constexpr std::size_t kSlots = 3;
  std::vector<Tensor> make_slots(ShardLevel level);

  void before_layer(std::size_t layer);
  void fetch_values(std::size_t bucket);
  void keep_gradients(std::size_t buckets);

  const Stream& stream_;
  Shard shard_;
  std::size_t slot_bytes_ = 0;
  Reducer reducer_;
  std::vector<Bucket> buckets_;
  std::vector<Tensor> gathered_;        // the values that are gathered after an update
  std::vector<std::size_t> bucket_of_;  // for each parameter
  // With divided parameters: the bucket whose values are in each slot.
  std::array<std::optional<std::size_t>, kSlots> resident_;
  bool in_backward_ = false;
  Accumulate accumulate_{};  // of this backward pass
  std::size_t kept_ = 0;     // buckets whose gradients it has kept
};

}  // namespace dist
