// What this file adds: which numbers a rank updates if the ranks share that work (ZeRO), and
// how whole tensors are put together again.
// Builds on: bucket_plan (the numbers in one message); 02, chunks (one chunk per rank).
// Look at: the picture. A chunk takes no notice of where a parameter begins or ends.
//
// Rank r owns chunk r of every bucket, because that is the chunk that a reduce-scatter leaves
// on it. With 3 ranks:
//
//   bucket 0   | 4.bias | 4.weight                    |
//   chunks     |      rank 0 |     rank 1 |    rank 2 |
//
// A rank's part of a parameter is a Parameter of its own, with one dimension and perhaps no
// numbers, so an optimizer of such parts needs to know nothing about ranks.
#pragma once

#include "02_broadcast/chunks.hpp"
#include "05_ddp_training/data_parallel/bucket_plan.hpp"
#include "05_ddp_training/optimizer/clip.hpp"
#include "common/communicator.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace dist {

// What is divided among the ranks (Rajbhandari et al., 2020; ZeRO-1, -2 and -3).
enum class ShardLevel { optimizer, gradients, parameters };

class Shard {
 public:
  // The plan for `parameters`, which must outlive this. `comm` must, too.
  Shard(ShardLevel level, std::span<Parameter> parameters, BucketCaps caps,
        const Communicator& comm);

  bool divides(ShardLevel level) const { return level_ >= level; }
  const std::vector<BucketPlan>& plans() const { return plans_; }
  // This rank's chunk of a bucket, and which of a parameter's numbers are in it.
  ChunkRange chunk(std::size_t bucket) const {
    return chunk_range(plans_[bucket].count, comm_.size(), comm_.rank());
  }
  ChunkRange mine(std::size_t parameter) const;
  // This rank's part of each parameter. ShardedDataParallel decides where their values and
  // gradients are.
  std::span<Parameter> parts() { return parts_; }
  std::span<const Parameter> parts() const { return parts_; }
  // The norm of all gradients, if the ranks average the squares of their parts.
  GradientNorm norm(const Stream& stream) const;

  // Called on all ranks, each with its part of a tensor that is divided like parameter
  // `parameter`. Returns the whole tensor on rank 0, in host memory, and an empty one
  // elsewhere.
  Tensor gather(std::size_t parameter, const Tensor& part, const Stream& stream) const;
  // The opposite on one rank: copies this rank's part of `whole`.
  void keep_part(std::size_t parameter, const Tensor& whole, const Tensor& part,
                 const Stream& stream) const;

 private:
  ShardLevel level_;
  std::span<Parameter> parameters_;
  const Communicator& comm_;
  std::vector<BucketPlan> plans_;
  std::vector<GradientNorm::Range> ranges_;
  std::vector<Parameter> parts_;
};

}  // namespace dist
