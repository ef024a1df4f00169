#include "05_ddp_training/trainer/options/parallel_setup.hpp"

#include "05_ddp_training/deterministic/deterministic_data_parallel.hpp"
#include "05_ddp_training/explain/explain.hpp"
#include "05_ddp_training/sharding/sharded_data_parallel.hpp"
#include "05_ddp_training/sharding/sharded_optimizer.hpp"
#include "05_ddp_training/trainer/guards/agreement.hpp"
#include "common/join.hpp"

#include <fmt/core.h>

namespace dist {

std::optional<int> ParallelSetup::read(int argc, char** argv) {
  if (const auto exit = Setup::read(argc, argv)) return exit;
  overlap_ =
      choose_overlap(parallel_.overlap, backend_.backend, comm(), options.common.threads);
  if (!parallel_.explain) return std::nullopt;
  return explain(comm(), console(), *make_group(), stream(), device.reason);
}

void ParallelSetup::check_together() {
  // Check that all ranks are in the same run.
  require_agreement(comm(), values());
  backend_ = choose_backend(parallel_.backend, comm(), device.device);
}

std::unique_ptr<ProcessGroup> ParallelSetup::make_group() {
  auto made =
      make_process_group(backend_.backend, comm(), device.device,
                         kAllReduceAlgorithms.at(parallel_.algorithm), overlap_.overlap);
  group = made.get();
  return made;
}

std::unique_ptr<Optimizer> ParallelSetup::make_optimizer(Mlp& model) {
  if (parallel_.shard_level() == ShardLevel::none) return Setup::make_optimizer(model);
  shard_.emplace(parallel_.shard_level(), model.parameters(), bucket_caps(), comm());
  auto made = std::make_unique<ShardedOptimizer>(options.optimizer, *shard_, stream());
  sharded_optimizer_ = made.get();
  return made;
}

std::unique_ptr<DataParallel> ParallelSetup::make_data_parallel(Mlp& model,
                                                                ProcessGroup& carrier) {
  if (parallel_.deterministic) {
    return std::make_unique<DeterministicDataParallel>(model, carrier, stream(), ranks());
  }
  // A division within NCCL's all-reduce needs another kernel and rules out adding in the
  // switch, so NCCL only adds, and the loss is divided (loss_divisor). PyTorch divides first,
  // too.
  const ReduceOp op = backend_.backend == Backend::nccl ? ReduceOp::sum : ReduceOp::avg;
  if (shard_) {
    sharded_optimizer_->connect(carrier);
    return std::make_unique<ShardedDataParallel>(model, carrier, stream(), *shard_, op);
  }
  const bool one_by_one = parallel_.data_parallel == "naive";  // every gradient is a bucket
  return std::make_unique<DistributedDataParallel>(
      model, carrier, stream(), one_by_one ? BucketCaps{0, 0} : bucket_caps(), op);
}

LrSchedule ParallelSetup::schedule() const {
  if (!parallel_.scale_lr) return Setup::schedule();
  return linearly_scaled(options.optimizer.lr, ranks().count(), options.optimizer.warmup_steps);
}

RunDescription ParallelSetup::description() const {
  RunDescription run = Setup::description();
  run.backend = to_string(backend_.backend);
  if (backend_.backend == Backend::ours) run.algorithm = parallel_.algorithm;
  run.overlap = overlap_.reason;
  run.shard = parallel_.shard;
  if (parallel_.deterministic) {
    run.algorithm = "fixed-tree";
    run.overlap = "the gradients are added after backward";
  }
  return run;
}

std::vector<std::string> ParallelSetup::opening(const Mlp& model) const {
  const int size = comm().size();
  const BatchPlan plan = batches();
  const VirtualSampler sampler(train().size(), ranks(), plan, options.sampler);
  return {fmt::format("{} rank{}, model {} on {} ({}){}", size, size == 1 ? "" : "s",
                      join(options.layers, "-"), to_string(device.device), device.reason,
                      precision() == Precision::bf16 ? ", products in bf16" : ""),
          parallel_.deterministic
              ? cost_of_determinism(ranks(), plan.size, model)
              : fmt::format(
                    "gradients by {}: {}{}", group->description(), backend_.reason,
                    shard_ ? "; each rank keeps a part (--shard " + parallel_.shard + ")" : ""),
          fmt::format("{}: {} samples, {} per rank{}, in batches of {} x {} = {}",
                      options.dataset, train().size(), sampler.num_samples(),
                      sampler.total_size() > train().size() ? " (padded)" : "", size,
                      options.batch_size, static_cast<std::size_t>(size) * options.batch_size)};
}

}  // namespace dist
