// What this file adds: an optimizer's step if each rank updates its own part.
// Builds on: optimizer (the stages of a step); sharded_data_parallel (which part is whose).
#pragma once

#include "05_ddp_training/data_parallel/bucket_plan.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

#include <memory>
#include <span>
#include <vector>

namespace dist {

class ShardedOptimizer : public Optimizer {
 public:
  // Updates `parts`, this rank's parts of the parameters. `group` carries the messages of
  // step(): the decision, and then `gathered`, the values of the buckets of `plans`, if there
  // are any. All arguments must outlive this.
  ShardedOptimizer(const OptimizerOptions& options, std::span<Parameter> parts,
                   std::span<const BucketPlan> plans, std::span<const Tensor> gathered,
                   ProcessGroup& group, const Stream& stream)
      : Optimizer(options, parts, stream), plans_(plans), gathered_(gathered), group_(group) {}

  // Called on all ranks, after the reduce-scatters.
  using Optimizer::step;
  void step(const Stream& stream) override {
    check(stream, /*decides=*/false);
    // A rank has checked its own part only. All ranks get the largest of their flags and the
    // means of their squares, so that all come to the same decision.
    group_.all_reduce(flags(), ReduceOp::max, stream, "finite gradients", squares())
        ->wait(stream);
    decide(stream);
    std::vector<std::unique_ptr<Work>> works;
    for (std::size_t b = 0; b < plans_.size(); ++b) {
      const BucketPlan& plan = plans_[b];
      // The numbers of a bucket's parameters are consecutive, and fall.
      update(plan.parameters.back(), plan.parameters.size(), stream);
      if (gathered_.empty()) continue;  // parameters are gathered when they are needed
      // This bucket travels while the next one is updated.
      works.push_back(group_.all_gather(gathered_[b], stream, plan.name));
    }
    for (const auto& work : works) work->wait(stream);
  }

 private:
  std::span<const BucketPlan> plans_;
  std::span<const Tensor> gathered_;
  ProcessGroup& group_;
};

}  // namespace dist
