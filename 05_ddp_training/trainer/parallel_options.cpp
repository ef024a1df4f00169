#include "05_ddp_training/trainer/parallel_options.hpp"

#include "03_all_reduce/advanced/host_memory.hpp"
#include "common/check.hpp"

#include <fmt/core.h>

#include <bit>
#include <set>

namespace dist {
namespace {

// The step that is explained has a model, data and an optimizer of its own.
void check_explain(const CommandLine& command_line, const Communicator& comm) {
  if (comm.size() != 2) {
    throw Error(fmt::format("--explain: shows one step of 2 ranks, here are {}", comm.size()));
  }
  const std::set<std::string> meant{"--explain", "--device",  "--backend", "--algorithm",
                                    "--overlap", "--threads", "--json",    "--trace",
                                    "--strict",  "--timeout"};
  for (const auto& [flag, text] : command_line.values()) {
    if (command_line.given(flag) && !meant.contains(flag)) {
      throw Error(fmt::format("--explain: has a step of its own, without {}", flag));
    }
  }
}

}  // namespace

void ParallelOptions::declare(CommandLine& command_line, TrainingOptions& training,
                              const Communicator& comm) {
  command_line.number<std::size_t>("--global-batch", global_batch, 1, 1U << 30,
                                   "samples per step over all ranks, for --batch-size");
  command_line.number<std::size_t>("--accumulate", accumulate, 1, 1U << 20,
                                   "batches per optimizer step, averaged; one all-reduce");
  command_line.choice("--backend", backend, {"auto", "ours", "mpi", "mpi-nonblocking", "nccl"},
                      "who carries gradients; auto: nccl with a GPU per rank, else ours");
  command_line.choice("--algorithm", algorithm,
                      {"auto", "naive", "recursive-doubling", "ring", "ring-pipelined",
                       "rabenseifner", "shared-memory", "mpi"},
                      "which all-reduce, for the backend ours");
  command_line.choice("--data-parallel", data_parallel, {"ddp", "naive"},
                      "buckets, or one all-reduce for each gradient");
  command_line.flag("--scale-lr", scale_lr,
                    "learning rate times ranks, warmed up from that of one rank");
  command_line.number("--bucket-cap-mb", bucket_cap_mb, 0.0, 1024.0,
                      "MiB after which a bucket is closed");
  command_line.number("--first-bucket-mb", first_bucket_mb, 0.0, 1024.0,
                      "the same for the first bucket, which is ready early");
  command_line.flag("--overlap,!--no-overlap", overlap_flag_,
                    "all-reduces run on a thread of their own; default: if a core is free");
  command_line.flag("--deterministic", deterministic,
                    "the same bits on 1, 2, 4 and 8 ranks; slower");
  command_line.number<std::size_t>("--check-replicas", check_replicas, 0, 1U << 30,
                                   "compare the parameters' hashes every so many steps");
  command_line.flag("--explain", explain,
                    "one step of two ranks, every number shown, to check by hand");
  command_line.check([&, this] {
    if (explain) check_explain(command_line, comm);
    if (command_line.given("--algorithm") && backend != "auto" && backend != "ours") {
      throw Error("--algorithm: is for the backend ours, not for " + backend);
    }
    if (algorithm == "shared-memory") require_host_memory("--algorithm", comm);
    if (command_line.given("--overlap")) overlap = overlap_flag_;
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
  command_line.check([&, this] {
    if (deterministic) settle_deterministic(command_line, training, comm);
  });
}

VirtualRanks ParallelOptions::ranks(const Communicator& comm) const {
  return {deterministic ? VirtualRanks::kCount : comm.size(), comm.size(), comm.rank()};
}

void ParallelOptions::settle_deterministic(const CommandLine& command_line,
                                           const TrainingOptions& training,
                                           const Communicator& comm) {
  constexpr int kRanks = VirtualRanks::kCount;
  const int ranks = comm.size();
  if (ranks > kRanks || !std::has_single_bit(static_cast<unsigned>(ranks))) {
    throw Error(fmt::format(
        "--deterministic: {} ranks; {} virtual ranks are shared out to 1, 2, 4 or 8", ranks,
        kRanks));
  }
  if (command_line.given("--backend") && backend != "auto" && backend != "ours") {
    throw Error("--deterministic: adds gradients in a tree of its own, not by --backend " +
                backend);
  }
  for (const char* flag : {"--algorithm", "--first-bucket-mb", "--bucket-cap-mb"}) {
    if (!command_line.given(flag)) continue;
    throw Error(fmt::format(
        "--deterministic: adds all gradients at once, in a tree of its own: no {}", flag));
  }
  if (data_parallel != "ddp") {
    throw Error("--deterministic: and --data-parallel naive exclude each other");
  }
  if (overlap.value_or(false)) {
    throw Error("--deterministic: sends nothing before backward's end: no --overlap");
  }
  if (accumulate > 1) {
    throw Error("--deterministic: and --accumulate above 1 exclude each other");
  }
  if (training.common.threads > 1) {
    throw Error(
        "--deterministic: needs --threads 1: threads share out a matrix product, and "
        "with it the order of its sums");
  }
  const std::size_t batch = training.batch_size * static_cast<std::size_t>(ranks);
  if (batch % kRanks != 0) {
    throw Error(fmt::format(
        "--deterministic: a batch of {} over all ranks ({}) does not divide by {}", batch,
        global_batch > 0 ? "--global-batch" : "--batch-size times ranks", kRanks));
  }
  backend = "ours";
  overlap = false;
}

}  // namespace dist
