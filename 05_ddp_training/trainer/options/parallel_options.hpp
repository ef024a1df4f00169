// The training flags that only a run of several processes needs.
#pragma once

#include "05_ddp_training/data_parallel/reducer.hpp"
#include "05_ddp_training/deterministic/virtual_ranks.hpp"
#include "05_ddp_training/sharding/shard.hpp"
#include "05_ddp_training/trainer/options/training_options.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace dist {

struct ParallelOptions {
  std::size_t global_batch = 0;  // 0: use --batch-size
  std::string backend = "auto";
  std::string algorithm = "ring";
  std::string data_parallel = "ddp";
  bool scale_lr = false;
  double first_bucket_mb = 1.0;
  double bucket_cap_mb = 1.0;
  std::optional<bool> overlap;       // unset: overlap if a core is free for it
  std::size_t accumulate = 1;        // batches per optimizer step
  std::size_t check_replicas = 100;  // steps between comparisons; 0: no comparisons
  std::string shard = "none";        // or optimizer, gradients, parameters
  bool deterministic = false;
  bool explain = false;

  // Adds the flags and their checks. One check divides --global-batch by the number of ranks,
  // and stores the result as the batch size of `training`.
  void declare(CommandLine& command_line, TrainingOptions& training, const Communicator& comm);

  ShardLevel shard_level() const;
  // Returns the ranks that this process plays.
  VirtualRanks ranks(const Communicator& comm) const;
  BucketCaps bucket_caps(Backend carrier) const {
    constexpr double kMiB = 1024.0 * 1024.0;
    // NCCL's all-reduce takes tens of microseconds at any size, so fewer buckets are better.
    const bool large = carrier == Backend::nccl && !bucket_cap_given_;
    return {.first_bytes = static_cast<std::size_t>(first_bucket_mb * kMiB),
            .bytes = static_cast<std::size_t>((large ? 25.0 : bucket_cap_mb) * kMiB)};
  }

 private:
  // Rejects flags that contradict --deterministic, and sets the defaults that it needs.
  void settle_deterministic(const CommandLine& command_line, const TrainingOptions& training,
                            const Communicator& comm);

  // Rejects flags that contradict --shard.
  void check_shard() const;

  bool overlap_flag_ = true;
  bool bucket_cap_given_ = false;
};

}  // namespace dist
