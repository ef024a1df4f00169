#include "05_ddp_training/sharding/sharded_optimizer.hpp"

#include <memory>
#include <vector>

namespace dist {

ShardedOptimizer::ShardedOptimizer(const OptimizerOptions& options, Shard& shard,
                                   const Stream& stream)
    : Optimizer(options, shard.parts(), stream), shard_(shard) {
  if (options.clip_norm > 0) clip(shard.norm(stream));
}

void ShardedOptimizer::step(const Stream& stream) {
  check(stream, /*decides=*/false);
  // A rank has checked its own part only. All ranks get the largest of their flags and the
  // means of their squares, so that all come to the same decision.
  group_->all_reduce(flags(), ReduceOp::max, stream, "finite gradients", squares())
      ->wait(stream);
  decide(stream);
  std::vector<std::unique_ptr<Work>> works;
  for (const Shard::Bucket& bucket : shard_.buckets()) {
    // The numbers of a bucket's parameters are consecutive, and fall.
    update(bucket.parameters.back(), bucket.parameters.size(), stream);
    if (bucket.values.numel() == 0) continue;
    // This bucket travels while the next one is updated.
    works.push_back(group_->all_gather(bucket.values, stream, bucket.name));
  }
  for (const auto& work : works) work->wait(stream);
}

}  // namespace dist
