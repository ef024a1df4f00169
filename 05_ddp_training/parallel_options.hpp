// The flags of training that only several processes need.
#pragma once

#include "03_all_reduce/advanced/host_memory.hpp"
#include "05_ddp_training/lr_schedule.hpp"
#include "05_ddp_training/training_options.hpp"
#include "common/communicator.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string>

namespace dist {

struct ParallelOptions {
  std::size_t global_batch = 0;  // 0: --batch-size rules
  std::string backend = "auto";
  std::string algorithm = "auto";
  std::string data_parallel = "ddp";
  bool scale_lr = false;

  // Adds the flags, and a check that divides --global-batch into `training`'s batch size.
  void declare(CommandLine& command_line, TrainingOptions& training, const Communicator& comm) {
    command_line.number<std::size_t>("--global-batch", global_batch, 1, 1U << 30,
                                     "samples per step over all ranks, for --batch-size");
    command_line.choice("--backend", backend, {"auto", "ours", "mpi", "nccl"},
                        "who carries gradients; auto: nccl with a GPU per rank, else ours");
    command_line.choice("--algorithm", algorithm,
                        {"auto", "naive", "recursive-doubling", "ring", "ring-pipelined",
                         "rabenseifner", "shared-memory", "mpi"},
                        "which all-reduce, for the backend ours");
    command_line.choice("--data-parallel", data_parallel, {"ddp", "naive"},
                        "one all-reduce for all gradients, or one for each");
    command_line.flag("--scale-lr", scale_lr,
                      "learning rate times ranks, warmed up from that of one rank");
    command_line.check([&, this] {
      if (command_line.given("--algorithm") && (backend == "mpi" || backend == "nccl")) {
        throw Error("--algorithm: is for the backend ours, not for " + backend);
      }
      if (algorithm == "shared-memory") require_host_memory("--algorithm", comm);
      if (global_batch == 0) return;
      if (scale_lr) {
        throw Error("--scale-lr: --global-batch is the same batch on any number of ranks");
      }
      if (command_line.given("--batch-size")) {
        throw Error("--global-batch: and --batch-size exclude each other");
      }
      const auto ranks = static_cast<std::size_t>(comm.size());
      if (global_batch % ranks != 0) {
        throw Error(
            fmt::format("--global-batch: {} does not divide by {} ranks", global_batch, ranks));
      }
      training.batch_size = global_batch / ranks;
    });
  }

  LrSchedule lr_schedule(const OptimizerOptions& optimizer, const Communicator& comm) const {
    if (!scale_lr) return warmed_up(optimizer.lr, optimizer.warmup_steps);
    return linearly_scaled(optimizer.lr, comm.size(), optimizer.warmup_steps);
  }
};

}  // namespace dist
