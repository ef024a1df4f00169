// The flags of training that only several processes need.
#pragma once

#include "05_ddp_training/advanced/deterministic/virtual_ranks.hpp"
#include "05_ddp_training/data_parallel/reducer.hpp"
#include "05_ddp_training/trainer/training_options.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace dist {

struct ParallelOptions {
  std::size_t global_batch = 0;  // 0: --batch-size rules
  std::string backend = "auto";
  std::string algorithm = "ring";
  std::string data_parallel = "ddp";
  bool scale_lr = false;
  double first_bucket_mb = 1.0;
  double bucket_cap_mb = 1.0;
  std::optional<bool> overlap;       // unset: where a core is free for it
  std::size_t accumulate = 1;        // batches per optimizer step
  std::size_t check_replicas = 100;  // steps between two comparisons; 0: none
  bool deterministic = false;
  bool explain = false;

  // Adds the flags, and checks. One of them divides --global-batch into `training`'s batch
  // size.
  void declare(CommandLine& command_line, TrainingOptions& training, const Communicator& comm);

  // Who plays which ranks.
  VirtualRanks ranks(const Communicator& comm) const;
  BucketCaps bucket_caps() const {
    constexpr double kMiB = 1024.0 * 1024.0;
    return {.first_bytes = static_cast<std::size_t>(first_bucket_mb * kMiB),
            .bytes = static_cast<std::size_t>(bucket_cap_mb * kMiB)};
  }

 private:
  // What --deterministic rules out, and what it chooses where the reader said nothing.
  void settle_deterministic(const CommandLine& command_line, const TrainingOptions& training,
                            const Communicator& comm);

  bool overlap_flag_ = true;
};

}  // namespace dist
