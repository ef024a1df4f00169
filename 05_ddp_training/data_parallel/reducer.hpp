// What this file adds: gradients averaged over the ranks while backward still computes others.
// Builds on: bucket_plan (who travels together), process_group (who carries).
//
// Backward finishes the last layer's gradients first. As soon as the last gradient of a bucket
// is there, the bucket's all-reduce starts, and backward goes on. PyTorch's Reducer:
//
//   time ->
//   compute        | layer 3 | layer 2 | layer 1 | wait | optimizer
//   communication            | bucket 0 | bucket 1 | bucket 2 |
//
// Buckets start strictly in order, even if a later one is full first: collectives match by the
// order of the calls, not by name, so ranks that started them in different orders would add up
// gradients of different layers.
#pragma once

#include "05_ddp_training/data_parallel/overlap_bound.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dist {

struct BucketCaps {
  std::size_t first_bytes = 1 << 20;  // PyTorch's
  std::size_t bytes = 1 << 20;        // PyTorch's 25 MiB would hold our whole default model
};

class Reducer {
 public:
  // Called on all ranks. Replaces the grad of every parameter by a window on its bucket: what
  // backward writes there is already in the message, nothing is copied in or out. `parameters`
  // and `group` must outlive the reducer.
  Reducer(std::span<Parameter> parameters, ProcessGroup& group, BucketCaps caps);

  // The gradient of parameters[index] has been queued on `compute`. Once per parameter and
  // backward pass; throws Error naming a parameter that comes twice.
  void mark_ready(std::size_t index, const Stream& compute);
  // After backward: every gradient is the mean over the ranks, for work queued on `compute`
  // from now on. Throws Error naming a parameter that never became ready.
  void finalize(const Stream& compute);

  std::size_t buckets() const { return buckets_.size(); }
  // The parameters' names in each bucket, in the order of their all-reduces.
  std::vector<std::vector<std::string>> names() const;
  // The last step's all-reduces, for their times. Empty if they were taken already.
  ReducedStep take_step();

 private:
  struct Bucket {
    Tensor message;
    std::vector<std::size_t> parameters;
    std::string name;         // "bucket 2: 2.bias, 2.weight"
    std::size_t missing = 0;  // gradients that backward has not finished
    Event full;               // when none was missing any more
    std::shared_ptr<Work> work;
  };
  void start_full_buckets(const Stream& compute);

  std::span<Parameter> parameters_;
  ProcessGroup& group_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // of each parameter
  std::vector<bool> ready_;             // of each parameter
  std::size_t next_ = 0;                // the bucket whose turn it is
};

}  // namespace dist
