// What this file adds: averaging gradients over the ranks while backward is still computing
// others, as PyTorch's Reducer does.
// Builds on: bucket_plan (which gradients are sent together), process_group (what carries
// them).
//
// Backward finishes the last layer's gradients first. As soon as a bucket has all its
// gradients, its all-reduce starts, and backward continues:
//
//   time ->
//   compute        | layer 3 | layer 2 | layer 1 | wait | optimizer
//   communication            | bucket 0 | bucket 1 | bucket 2 |
//
// Buckets start strictly in order, even if a later one is full first. Collectives are matched
// by the order of the calls, not by name, so ranks that started them in different orders would
// add up the gradients of different layers.
#pragma once

#include "05_ddp_training/data_parallel/bucket_plan.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace dist {

// A tensor for bucket `index`: its own or, if there are `slots`, one of these, which the
// buckets take in turn.
Tensor allocate_bucket(ProcessGroup& group, const BucketPlan& plan, std::size_t index,
                       std::span<const Tensor> slots = {});

class Reducer {
 public:
  // Called on all ranks. Replaces the grad of every parameter with a view of its bucket, so
  // that backward writes directly into the message, and no copying is needed. `parameters` and
  // `group` must outlive the reducer. (sharding/ uses the other collective and fewer slots.)
  Reducer(std::span<Parameter> parameters, std::vector<BucketPlan> plans, ProcessGroup& group,
          Collective::Kind collective = Collective::Kind::all_reduce,
          std::span<const Tensor> slots = {});

  // The first bucket of the next pass takes these numbers along (Collective::numbers).
  void carry(std::span<double> numbers) { numbers_ = numbers; }
  // Call this when the gradient of parameters[index] has been queued on `compute`, once per
  // parameter and backward pass. Throws Error naming a parameter that is marked twice.
  void mark_ready(std::size_t index, const Stream& compute);
  // Call this after backward. Work queued on `compute` after this call sees every gradient as
  // the mean over the ranks. Returns what was sent. Throws Error naming a parameter that never
  // became ready.
  std::vector<std::unique_ptr<Work>> finalize(const Stream& compute);
  // The same for the first `buckets` buckets, during backward.
  void wait(std::size_t buckets, const Stream& compute);

  // The buckets that were started in this backward pass.
  std::size_t started() const { return works_.size(); }
  const std::vector<BucketPlan>& plans() const { return plans_; }
  const Tensor& message(std::size_t bucket) const { return messages_[bucket]; }

 private:
  void start_full_buckets(const Stream& compute);

  std::span<Parameter> parameters_;
  std::vector<BucketPlan> plans_;
  ProcessGroup& group_;
  Collective::Kind collective_;
  std::vector<Tensor> messages_;  // one for each bucket
  std::span<double> numbers_;     // to take along
  // Of the current backward pass: which gradients are ready, what was sent, and how many
  // buckets were waited for.
  std::vector<bool> ready_;
  std::vector<std::unique_ptr<Work>> works_;
  std::size_t waited_ = 0;
};

}  // namespace dist
