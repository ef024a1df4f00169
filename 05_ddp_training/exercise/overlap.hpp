// Exercise: send buckets of gradients while backward computes other gradients.
// Check it with ./learn check 5; ./learn hint 5 prints the next hint.
#pragma once

#include "05_ddp_training/exercise/gradient_sync.hpp"
#include "common/check.hpp"
#include "common/stream.hpp"
#include "tools/exercises/not_started.hpp"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace dist::exercise {

// Allocate the messages with `group.allocate({count})` in the constructor. `span()` of such a
// Tensor gives its elements. `group.all_reduce(message, ReduceOp::avg, compute)` starts an
// all-reduce and returns a Work at once. Until work->wait(compute) has returned, the message
// belongs to the group, so neither read nor write it. On the CPU, `compute` has no effect.
class BucketedSync : public GradientSync {
 public:
  // Called on all ranks with the same names, lengths and plan. `group`, `compute` and the
  // gradients' values outlive this object.
  BucketedSync(ProcessGroup& group, std::vector<Gradient> gradients, BucketPlan plan,
               const Stream& compute) {
    not_started();  // replace this line
  }

  // Called when the values of gradient `index` are complete. They do not change until finalize.
  //
  // Bucket b's all-reduce starts once, in the call that completes buckets 0 .. b. Buckets
  // therefore start strictly in order, regardless of the order of the calls, which may differ
  // between ranks. A bucket that is full before its predecessors waits for them, and one call
  // may start several buckets. Each bucket is one all_reduce of exactly its gradients'
  // elements, in the plan's order; the averages have the bits of ReduceOp::avg, and another
  // order has other last bits.
  // mark_ready does not wait for the all-reduces that it starts.
  void mark_ready(std::size_t index) override { not_started(); }

  // Waits for all buckets, writes the averages into the gradients, and prepares the next step.
  // If a gradient never became ready because backward left out a layer, throws Error
  // (common/check.hpp) with the gradient's name in the text. The gradient is then missing on
  // all ranks, and the caller discards the object.
  void finalize() override { not_started(); }
};

inline std::unique_ptr<GradientSync> overlap(ProcessGroup& group,
                                             std::vector<Gradient> gradients, BucketPlan plan,
                                             const Stream& compute) {
  return std::make_unique<BucketedSync>(group, std::move(gradients), std::move(plan), compute);
}

}  // namespace dist::exercise
