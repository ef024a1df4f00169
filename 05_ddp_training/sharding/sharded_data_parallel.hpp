// What this file adds: data parallelism in which each rank keeps only a part of the optimizer's
// state, the gradients, or even the parameters (ZeRO, PyTorch's FSDP).
// Builds on: reducer, with reduce-scatters; 02, chunks (one chunk per rank).
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
// Rank r's part is chunk r of every bucket, because that is the chunk that a reduce-scatter
// leaves on it. A chunk takes no notice of where a parameter begins or ends. With 3 ranks:
//
//   bucket 0   | 4.bias | 4.weight                    |
//   chunks     |      rank 0 |     rank 1 |    rank 2 |
//
// A rank's part of a parameter is a Parameter of its own, with one dimension and perhaps no
// numbers, so an optimizer of such parts needs to know nothing about ranks.
//
// Every number is computed by the same additions as with DDP over the ring, so the bits are the
// same.
#pragma once

#include "02_broadcast/chunks.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/mlp.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace dist {

// What is divided among the ranks (Rajbhandari et al., 2020; ZeRO-1, -2 and -3).
enum class ShardLevel { optimizer, gradients, parameters };

class ShardedDataParallel : public DataParallel {
 public:
  // Called on all ranks. Replaces the values and grads of `module`. All must outlive this. The
  // first level takes any module; the others throw Error unless it is an Mlp.
  ShardedDataParallel(Module& module, ProcessGroup& group, const Stream& stream,
                      ShardLevel level, BucketCaps caps);
  ~ShardedDataParallel() override {
    if (mlp_ != nullptr) mlp_->before_layer({});
  }

  void backward(const Tensor& grad_logits, const Batch::Place& place,
                const Stream& stream) override;

  Kept kept() const override;
  // The whole tensor is in host memory, and empty on other ranks than 0.
  Tensor gather(std::size_t parameter, const Tensor& mine, const Stream& stream) const override;
  void keep_part(std::size_t parameter, const Tensor& whole, const Tensor& mine,
                 const Stream& stream) const override;

 private:
  std::unique_ptr<Optimizer> plain_optimizer(const OptimizerOptions& options,
                                             const Stream& stream) override;
  GradientNorm norm(const Stream& stream) const override;

  struct Bucket {
    Tensor values;                   // of the whole bucket; in a slot if parameters are divided
    Tensor my_values, my_gradients;  // my chunk
    std::unique_ptr<Work> gathered;  // null: not started, or the values are complete
  };

  bool divides(ShardLevel level) const { return level_ >= level; }
  // This rank's chunk of a bucket, and which of a parameter's numbers are in it.
  ChunkRange my_chunk(std::size_t bucket) const {
    return chunk_range(plans_[bucket].count, group_.comm().size(), group_.comm().rank());
  }
  ChunkRange my_part(std::size_t parameter) const;

  // Memory for whole buckets, in turn. A layer needs at most two buckets at a time, and a third
  // one may be on its way. Empty if `level` is not divided.
  static constexpr std::size_t kSlots = 3;
  std::vector<Tensor> make_slots(ShardLevel level);

  void before_layer(std::size_t layer);
  void fetch_values(std::size_t bucket);
  void keep_gradients(std::size_t buckets);

  // The module, of which the higher levels know more than others do: a chain of layers, each of
  // which has a weight and a bias and is used once per pass, and which announces that it is
  // about to use them. Null for the first level. With units of any consecutive parameters, each
  // of a tied weight's uses would have to keep its bucket, values and gradient, which three
  // slots in turn cannot: a table from units to buckets and slots by use would take more than
  // 60 lines.
  Mlp* mlp_;
  const Stream& stream_;
  ShardLevel level_;
  std::vector<BucketPlan> plans_;
  std::vector<GradientNorm::Range> ranges_;  // what each rank has of the parameters
  std::vector<Parameter> parts_;             // this rank's part of each parameter
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
