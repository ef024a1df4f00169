#include "05_ddp_training/trainer/options/parallel_options.hpp"

#include "03_all_reduce/one_host/host_memory.hpp"
#include "common/check.hpp"

#include <fmt/core.h>

#include <bit>
#include <set>

namespace dist {
namespace {

// --explain has its own model, data and optimizer, and rejects flags that would change them.
void check_explain(const CommandLine& command_line, const Communicator& comm) {
  if (comm.size() != 2) {
    throw Error(fmt::format("--explain: needs 2 ranks, not {}", comm.size()));
  }
  const std::set<std::string> meant{"--explain", "--device",  "--backend", "--algorithm",
                                    "--overlap", "--threads", "--json",    "--trace",
                                    "--strict",  "--timeout"};
  for (const auto& [flag, text] : command_line.values()) {
    if (command_line.given(flag) && !meant.contains(flag)) {
      throw Error(fmt::format("--explain: cannot be combined with {}", flag));
    }
  }
}

}  // namespace

void ParallelOptions::declare(CommandLine& command_line, TrainingOptions& training,
                              const Communicator& comm) {
  command_line.number<std::size_t>("--global-batch", global_batch, 1, 1U << 30,
                                   "samples per step over all ranks, instead of --batch-size");
  command_line.number<std::size_t>("--accumulate", accumulate, 1, 1U << 20,
                                   "batches per optimizer step, averaged with one all-reduce");
  command_line.choice("--backend", backend, {"auto", "ours", "mpi", "nccl"},
                      "what carries gradients; auto: nccl with a GPU per rank, else ours");
  command_line.choice("--algorithm", algorithm,
                      {"auto", "naive", "recursive-doubling", "ring", "ring-pipelined",
                       "rabenseifner", "shared-memory", "hierarchical", "mpi"},
                      "all-reduce algorithm of --backend ours");
  command_line.choice("--data-parallel", data_parallel, {"ddp", "naive"},
                      "buckets, or one all-reduce for each gradient");
  command_line.flag("--scale-lr", scale_lr,
                    "multiply the learning rate by the number of ranks, after a warm-up");
  command_line.number("--bucket-cap-mb", bucket_cap_mb, 0.0, 1024.0,
                      "MiB after which a bucket is closed; 25 with --backend nccl");
  command_line.number("--first-bucket-mb", first_bucket_mb, 0.0, 1024.0,
                      "--bucket-cap-mb for the first bucket, which is ready early");
  command_line.flag("--overlap,!--no-overlap", overlap_flag_,
                    "run all-reduces on a separate thread; default: if a core is free");
  command_line.choice("--shard", shard, {"none", "optimizer", "gradients", "parameters"},
                      "what each rank keeps only a part of; each name includes those before");
  command_line.flag("--deterministic", deterministic,
                    "bitwise equal results on 1, 2, 4 and 8 ranks; slower");
  command_line.number<std::size_t>("--check-replicas", check_replicas, 0, 1U << 30,
                                   "steps between comparisons of the replicas; 0: never");
  command_line.flag("--explain", explain,
                    "show every number of one step on two ranks, to check by hand");
  command_line.check([&, this] {
    if (explain) check_explain(command_line, comm);
    if (command_line.given("--algorithm") && backend != "auto" && backend != "ours") {
      throw Error("--algorithm: needs --backend ours, not " + backend);
    }
    if (algorithm == "shared-memory") require_host_memory("--algorithm", comm);
    if (shard != "none") check_shard();
    if (command_line.given("--overlap")) overlap = overlap_flag_;
    bucket_cap_given_ = command_line.given("--bucket-cap-mb");
    if (global_batch == 0) return;
    if (scale_lr) {
      throw Error("--scale-lr: --global-batch does not grow with the number of ranks");
    }
    if (command_line.given("--batch-size")) {
      throw Error("--global-batch: cannot be combined with --batch-size");
    }
    const auto ranks = static_cast<std::size_t>(comm.size());
    if (global_batch % ranks != 0) {
      throw Error(
          fmt::format("--global-batch: {} is not divisible by {} ranks", global_batch, ranks));
    }
    training.batch_size = global_batch / ranks;
  });
  command_line.check([&, this] {
    if (deterministic) settle_deterministic(command_line, training, comm);
  });
}

void ParallelOptions::check_shard() const {
  if (deterministic) throw Error("--shard: cannot be combined with --deterministic");
  if (data_parallel != "ddp") {
    throw Error("--shard: cannot be combined with --data-parallel naive");
  }
  const std::set<std::string> halves{"ring", "shared-memory", "auto"};
  if ((backend == "auto" || backend == "ours") && !halves.contains(algorithm)) {
    throw Error(fmt::format(
        "--shard: needs the two halves of an all-reduce, which --algorithm {} does not have "
        "(ring, shared-memory and auto do)",
        algorithm));
  }
}

ShardLevel ParallelOptions::shard_level() const {
  if (shard == "optimizer") return ShardLevel::optimizer;
  if (shard == "gradients") return ShardLevel::gradients;
  return shard == "parameters" ? ShardLevel::parameters : ShardLevel::none;
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
    throw Error(
        fmt::format("--deterministic: the {} virtual ranks need 1, 2, 4 or 8 processes, not {}",
                    kRanks, ranks));
  }
  if (command_line.given("--backend") && backend != "auto" && backend != "ours") {
    throw Error(
        "--deterministic: adds gradients in its own fixed tree and cannot use --backend " +
        backend);
  }
  for (const char* flag : {"--algorithm", "--first-bucket-mb", "--bucket-cap-mb"}) {
    if (!command_line.given(flag)) continue;
    throw Error(fmt::format(
        "--deterministic: adds all gradients at once in its own fixed tree and cannot use {}",
        flag));
  }
  if (data_parallel != "ddp") {
    throw Error("--deterministic: cannot be combined with --data-parallel naive");
  }
  if (overlap.value_or(false)) {
    throw Error("--deterministic: sends only after backward, so it cannot use --overlap");
  }
  if (accumulate > 1) {
    throw Error("--deterministic: cannot be combined with --accumulate above 1");
  }
  if (training.common.threads > 1) {
    throw Error(
        "--deterministic: needs --threads 1, because several threads would change the order "
        "of the sums in a matrix product");
  }
  const std::size_t batch = training.batch_size * static_cast<std::size_t>(ranks);
  if (batch % kRanks != 0) {
    throw Error(fmt::format(
        "--deterministic: a batch of {} over all ranks ({}) is not divisible by {}", batch,
        global_batch > 0 ? "--global-batch" : "--batch-size times ranks", kRanks));
  }
  backend = "ours";
  overlap = false;
}

}  // namespace dist
