// What this file adds: an optimizer's step if each rank updates its own part.
// Builds on: optimizer (the stages of a step); shard (which part is whose).
#pragma once

#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "05_ddp_training/sharding/shard.hpp"

namespace dist {

class ShardedOptimizer : public Optimizer {
 public:
  // `shard` must outlive this.
  ShardedOptimizer(const OptimizerOptions& options, Shard& shard, const Stream& stream);

  // Called before the first step, once ShardedDataParallel has placed the shard's parts.
  // `group` carries the messages of step().
  void connect(ProcessGroup& group) { group_ = &group; }

  // Called on all ranks, after the reduce-scatters.
  using Optimizer::step;
  void step(const Stream& stream) override;

 private:
  Shard& shard_;
  ProcessGroup* group_ = nullptr;
};

}  // namespace dist
