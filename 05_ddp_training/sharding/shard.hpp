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
// A rank's part of a parameter is a Parameter of its own, with one dimension, so an optimizer
// of such parts needs to know nothing about ranks but the two functions of Partners.
#pragma once

#include "02_broadcast/chunks.hpp"
#include "05_ddp_training/data_parallel/bucket_plan.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace dist {

// What is divided among the ranks (Rajbhandari et al., 2020; ZeRO-1, -2 and -3).
enum class ShardLevel { none, optimizer, gradients, parameters };

// The same ranges for a run that is not divided, in which every rank has all gradients.
std::vector<GradientNorm::Range> norm_ranges(std::span<const Parameter> parameters,
                                             BucketCaps caps, int ranks);

class Shard : public Partners {
 public:
  // The plan for `model`, whose parameters must outlive this. `comm` must, too.
  Shard(ShardLevel level, Mlp& model, BucketCaps caps, const Communicator& comm);

  struct Bucket {
    std::string name;                     // "bucket 2: 2.bias, 2.weight"
    std::vector<std::size_t> parameters;  // in the order of their numbers
    std::size_t count = 0;                // numbers
    ChunkRange mine{};                    // this rank's
    std::size_t first_part = 0;           // this rank's parts, in parts()
    std::size_t parts = 0;
    // Set by ShardedDataParallel.
    Tensor values;  // of the whole bucket, to be passed on after an update; may be empty
  };
  ShardLevel level() const { return level_; }
  std::vector<Bucket>& buckets() { return buckets_; }
  // This rank's parts of the parameters, bucket by bucket. ShardedDataParallel decides where
  // their values and gradients are.
  std::span<Parameter> parts() { return parts_; }
  std::span<const Parameter> parts() const { return parts_; }
  // Where a parameter, and where part `index`, begins in its bucket.
  std::size_t begin_of(std::size_t parameter) const { return parameter_[parameter].begin; }
  std::size_t begin_in_bucket(std::size_t index) const { return places_[index].begin; }
  void connect(ProcessGroup& group) { group_ = &group; }  // which passes parts on

  // The size of the memory that whole buckets take in turn.
  std::size_t slot_bytes() const { return slot_bytes_; }
  void add_slot_bytes(std::size_t bytes) { slot_bytes_ += bytes; }

  // The ranges in which the squares of the gradients are added up (GradientNorm): those of this
  // rank's parts.
  std::vector<GradientNorm::Range> norm_ranges() const;

  // Called on all ranks, each with its part of a tensor that is divided like parameter
  // `parameter` (empty if it has none). Returns the whole tensor on rank 0, in host memory, and
  // an empty one elsewhere.
  Tensor gather(std::size_t parameter, const Tensor& part, const Stream& stream) const;
  // The opposite on one rank: copies this rank's part of `whole`.
  void keep_part(std::size_t parameter, const Tensor& whole, const Tensor& part,
                 const Stream& stream) const;
  // The part of a parameter's value that this rank owns; empty if there is none.
  Tensor part_of(std::size_t parameter) const;

  std::size_t parameters() const override { return model_.parameters().size(); }
  std::size_t parameter_of(std::size_t part) const override { return places_[part].parameter; }
  void agree(const Tensor& flags, std::span<double> squares, const Stream& stream) override;
  void update_and_pass_on(const Update& update, const Stream& stream) override;

 private:
  struct Place {
    std::size_t parameter;
    std::size_t begin;  // in the bucket
  };
  // Rank `rank`'s part of a parameter, as a range of the parameter's numbers.
  ChunkRange range(std::size_t parameter, int rank) const;

  ShardLevel level_;
  Mlp& model_;
  const Communicator& comm_;
  ProcessGroup* group_ = nullptr;
  std::vector<Bucket> buckets_;
  std::vector<Parameter> parts_;
  std::size_t slot_bytes_ = 0;
  std::vector<Place> places_;     // for each part
  std::vector<Place> parameter_;  // for each parameter: its bucket, and where it begins there
};

}  // namespace dist
