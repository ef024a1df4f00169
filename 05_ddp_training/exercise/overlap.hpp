// Exercise: buckets of gradients leave while backward goes on.
// Check your code with ./learn check 5. For hints, run ./learn hint 5 one or more times.
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

// Messages come from `group.allocate({count})`, in the constructor; `span()` of such a Tensor
// are its elements. `group.all_reduce(message, ReduceOp::avg, compute)` starts an all-reduce
// and returns a Work at once. The message belongs to the group until work->wait(compute) has
// returned: neither read nor write it in between. `compute` is a null object here, on the CPU;
// pass it on.
class BucketedSync : public GradientSync {
 public:
  // Called on all ranks with the same names, lengths and plan. `group` and `compute` outlive
  // this object, and so do the gradients' values.
  BucketedSync(ProcessGroup& group, std::vector<Gradient> gradients, BucketPlan plan,
               const Stream& compute) {
    not_started();  // replace this line
  }

  // The values of gradient `index` are complete; they will not change until finalize.
  //
  // Bucket b's all-reduce is started, once, in the call that completes it: by the call that
  // makes the last gradient of buckets 0 .. b ready. So buckets start strictly in order,
  // whatever the order of the calls; a bucket that is full before its predecessors waits for
  // them, and one call may start several. The order of the calls may differ between the ranks.
  // Does not wait for what it starts. One all_reduce per bucket, of as many elements as its
  // gradients have together.
  void mark_ready(std::size_t index) override { not_started(); }

  // Waits for all buckets and puts the averages where the gradients are. Then this object is
  // ready for the next step.
  // Throws Error (common/check.hpp) if a gradient never became ready; its text holds that
  // gradient's name. (It would be a layer that backward left out. The object is of no use any
  // more; all ranks throw.)
  void finalize() override { not_started(); }
};

inline std::unique_ptr<GradientSync> overlap(ProcessGroup& group,
                                             std::vector<Gradient> gradients, BucketPlan plan,
                                             const Stream& compute) {
  return std::make_unique<BucketedSync>(group, std::move(gradients), std::move(plan), compute);
}

}  // namespace dist::exercise
