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
#include "05_ddp_training/data_parallel/communication_times.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dist {

class Reducer {
 public:
  // Called on all ranks. Replaces the grad of every parameter with a view of its bucket, so
  // that backward writes directly into the message, and no copying is needed. `op` is avg, or
  // sum if the gradients are already divided by the number of ranks. `parameters` and `group`
  // must outlive the reducer.
  Reducer(std::span<Parameter> parameters, ProcessGroup& group, BucketCaps caps,
          ReduceOp op = ReduceOp::avg);

  // The next step's first bucket takes these numbers along (ProcessGroup::all_reduce).
  void carry(std::span<double> numbers) { numbers_ = numbers; }
  // Call this when the gradient of parameters[index] has been queued on `compute`, once per
  // parameter and backward pass. Throws Error naming a parameter that is marked twice.
  void mark_ready(std::size_t index, const Stream& compute);
  // Call this after backward. Work queued on `compute` after this call sees every gradient as
  // the mean over the ranks. Throws Error naming a parameter that never became ready.
  void finalize(const Stream& compute);

  std::size_t buckets() const { return buckets_.size(); }
  // The parameters' names in each bucket, in the order of their all-reduces.
  std::vector<std::vector<std::string>> names() const;
  // The last step's all-reduces; nullopt if there are none, or if they were already taken.
  std::optional<Communication> take_communication() {
    return std::exchange(step_, std::nullopt);
  }

 private:
  struct Bucket {
    BucketPlan plan;
    Tensor message;
    std::size_t missing;  // gradients that backward has not finished
  };
  void start_full_buckets(const Stream& compute);

  std::span<Parameter> parameters_;
  ProcessGroup& group_;
  ReduceOp op_;
  std::vector<Bucket> buckets_;
  std::span<double> numbers_;
  std::vector<std::size_t> bucket_of_;  // for each parameter
  std::vector<bool> ready_;             // for each parameter
  std::size_t next_ = 0;                // the next bucket to start
  std::optional<Communication> step_;
};

}  // namespace dist
