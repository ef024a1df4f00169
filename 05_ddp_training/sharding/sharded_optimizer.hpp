// What this file adds: an optimizer's step if each rank updates its own part.
// Builds on: optimizer (the stages of a step); shard (which part is whose).
#pragma once

#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "05_ddp_training/sharding/shard.hpp"

#include <memory>
#include <vector>

namespace dist {

class ShardedOptimizer : public Optimizer {
 public:
  // `shard` must outlive this.
  ShardedOptimizer(const OptimizerOptions& options, Shard& shard, const Stream& stream)
      : Optimizer(options, shard.parts(), stream), shard_(shard) {
    if (options.clip_norm > 0) clip(shard.norm(stream));
  }

  // Called before the first step, once ShardedDataParallel has placed the shard's parts.
  // `group` carries the messages of step().
  void connect(ProcessGroup& group) { group_ = &group; }

  // Called on all ranks, after the reduce-scatters.
  using Optimizer::step;
  void step(const Stream& stream) override {
    check(stream, /*decides=*/false);
    // A rank has checked its own part only. All ranks get the largest of their flags and the
    // means of their squares, so that all come to the same decision.
    group_->all_reduce(flags(), ReduceOp::max, stream, "finite gradients", squares())
        ->wait(stream);
    decide(stream);
    std::vector<std::unique_ptr<Work>> works;
    for (std::size_t b = 0; b < shard_.plans().size(); ++b) {
      const BucketPlan& plan = shard_.plans()[b];
      // The numbers of a bucket's parameters are consecutive, and fall.
      update(plan.parameters.back(), plan.parameters.size(), stream);
      if (shard_.divides(ShardLevel::parameters)) continue;  // gathered when they are needed
      // This bucket travels while the next one is updated.
      works.push_back(group_->all_gather(shard_.gathered[b], stream, plan.name));
    }
    for (const auto& work : works) work->wait(stream);
  }

 private:
  Shard& shard_;
  ProcessGroup* group_ = nullptr;
};

}  // namespace dist
