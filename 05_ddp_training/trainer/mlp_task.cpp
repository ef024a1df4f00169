#include "05_ddp_training/trainer/mlp_task.hpp"

#include "05_ddp_training/optimizer/lr_schedule.hpp"

namespace dist {

void MlpTask::declare(Options& options, CommandLine& flags, CommonOptions& common, int ranks,
                      bool writes) {
  model_.declare(flags);
  options.declare(flags, common, ranks, writes);
}

double MlpTask::lr_at(const Options& options, int ranks, std::size_t step) const {
  const OptimizerOptions& optimizer = options.optimizer;
  return options.scale_lr
             ? linearly_scaled(optimizer.lr, ranks, optimizer.warmup_steps).at(step)
             : warmed_up(optimizer.lr, optimizer.warmup_steps).at(step);
}

}  // namespace dist
