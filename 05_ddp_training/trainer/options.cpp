#include "05_ddp_training/trainer/options.hpp"

#include "05_ddp_training/deterministic/virtual_ranks.hpp"
#include "common/atomic_file.hpp"
#include "common/check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <set>

namespace dist {
namespace {

// Rejects flags of other optimizers, and sets the defaults that depend on the optimizer.
void settle_optimizer(const CommandLine& command_line, OptimizerOptions& options) {
  const bool sgd = options.name == "sgd";
  if (!command_line.given("--lr") && sgd) options.lr = 0.01;
  if (!command_line.given("--weight-decay") && options.name == "adamw") {
    options.weight_decay = 0.01;
  }
  // Like torch.optim.Adam, reject momentum. If momentum were ignored, it would seem to work.
  const auto is_for = [&](const char* flag, bool is_right, const char* optimizer) {
    if (is_right || !command_line.given(flag)) return;
    throw Error(
        fmt::format("{}: is for --optimizer {}, not for {}", flag, optimizer, options.name));
  };
  for (const char* flag : {"--momentum", "--dampening", "--nesterov"}) {
    is_for(flag, sgd, "sgd");
  }
  for (const char* flag : {"--betas", "--eps"}) is_for(flag, !sgd, "adam and adamw");
  const bool no_momentum = options.momentum == 0.0;
  if (options.nesterov && no_momentum) throw Error("--nesterov: needs --momentum above 0");
  if (options.nesterov && options.dampening != 0.0) {
    throw Error("--nesterov: needs --dampening 0");
  }
  if (options.dampening != 0.0 && no_momentum) {
    throw Error("--dampening: needs --momentum above 0");
  }
  // If beta is 1, the running mean and its correction both stay 0, and the result is 0 / 0.
  if (std::ranges::find(options.betas, 1.0) != options.betas.end()) {
    throw Error("--betas: must be below 1");
  }
}

}  // namespace

void Options::declare_training(CommandLine& command_line, bool writes) {
  command_line.choice("--dataset", dataset, {"digits", "synthetic", "idx"}, "training data");
  command_line.text("--data", data, "folder of IDX files (MNIST's format), for --dataset idx");
  command_line.list("--layers", layers, "widths of the layers; ReLU between them");
  command_line.number<std::size_t>("--batch-size", batch_size, 1, 1U << 24, "samples per rank");
  command_line.number<std::size_t>("--epochs", epochs, 1, 1U << 30, "passes over the data");
  command_line.choice("--optimizer", optimizer.name, {"sgd", "adam", "adamw"}, "optimizer");
  command_line.number("--lr", optimizer.lr, 0.0, 1e6, "learning rate; default for sgd: 0.01");
  command_line.text("--checkpoint", checkpoint, "safetensors file to write at the end");
  common.declare(command_line);

  command_line.advanced();
  command_line.number<std::size_t>("--samples", samples, 1, 1U << 30,
                                   "number of samples of --dataset synthetic");
  command_line.number<std::size_t>("--classes", classes, 1, 1U << 24,
                                   "number of classes of --dataset synthetic");
  command_line.number("--test-fraction", test_fraction, 0.0, 0.9,
                      "fraction of a single pair of IDX files that is used for testing");
  command_line.number<std::size_t>("--max-steps", max_steps, 1, 1U << 30,
                                   "stop after this many steps");
  command_line.number("--weight-decay", optimizer.weight_decay, 0.0, 1e6,
                      "pulls parameters towards 0; default for adamw: 0.01");
  command_line.number("--momentum", optimizer.momentum, 0.0, 1.0,
                      "sgd: fraction of the previous step that is kept");
  command_line.number("--dampening", optimizer.dampening, 0.0, 1.0,
                      "sgd: fraction of a gradient that momentum ignores");
  command_line.flag("--nesterov", optimizer.nesterov,
                    "sgd: momentum that looks one step ahead");
  command_line.numbers("--betas", optimizer.betas, 0.0, 1.0,
                       "adam, adamw: fraction of the running means kept per step");
  command_line.number("--eps", optimizer.eps, 0.0, 1e6, "adam, adamw: added to the divisor");
  command_line.number<std::size_t>("--warmup-steps", optimizer.warmup_steps, 0, 1U << 30,
                                   "the learning rate rises linearly over this many steps");
  command_line.number("--clip-norm", optimizer.clip_norm, 0.0, 1e30,
                      "scales gradients down to this norm of all of them; 0: never");
  command_line.flag("--shuffle,!--no-shuffle", sampler.shuffle, "random order (the default)");
  command_line.number<std::uint64_t>(
      "--sampler-seed", sampler.seed, 0, 1ULL << 62,
      "seed of the sample order; separate from --seed, as in PyTorch");
  command_line.flag("--drop-last", sampler.drop_last,
                    "drop the samples left over when dividing among the ranks");
  command_line.flag("--loader-drop-last", loader_drop_last, "drop a short last batch");
  command_line.flag("--graph,!--no-graph", graph,
                    "on a GPU, record a step once and replay it (the default)");
  command_line.choice("--precision", precision, {"fp32", "bf16"},
                      "of the matrix products; all else stays fp32");
  command_line.number<std::size_t>("--checkpoint-every", checkpoint_every, 1, 1U << 30,
                                   "steps between checkpoints");
  command_line.text("--metrics", metrics, "file of JSON lines, one per step");

  command_line.check([this, &command_line, writes] {
    settle_optimizer(command_line, optimizer);
    layers_given = command_line.given("--layers");
    if (layers.size() < 2) throw Error("--layers: needs at least an input and an output width");
    if ((dataset == "idx") != command_line.given("--data")) {
      throw Error("--data: must be given together with --dataset idx");
    }
    if (command_line.given("--checkpoint-every") && checkpoint.empty()) {
      throw Error("--checkpoint-every: needs --checkpoint FILE");
    }
    if (writes) {
      // Find out now rather than after hours of training.
      std::vector<OutputFile> files;
      for (const auto& [flag, text] : command_line.values()) {
        const bool output = flag == "--checkpoint" || flag == "--metrics" || flag == "--trace";
        if (output) files.push_back({flag, text});
      }
      require_writable(files);
    }
    // If --max-steps is given without --epochs, only the number of steps ends the run.
    if (max_steps > 0 && !command_line.given("--epochs")) epochs = max_steps;
  });
}

void Options::declare_parallel(CommandLine& command_line, int ranks) {
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
  command_line.check([this, &command_line, ranks] {
    if (explain) check_explain(command_line, ranks);
    if (command_line.given("--algorithm") && backend != "auto" && backend != "ours") {
      throw Error("--algorithm: needs --backend ours, not " + backend);
    }
    if (shard != "none") check_shard();
    if (command_line.given("--overlap")) overlap = overlap_flag_;
    bucket_cap_given = command_line.given("--bucket-cap-mb");
    if (global_batch > 0) divide_global_batch(command_line, ranks);
    if (deterministic) settle_deterministic(command_line, ranks);
  });
}

void Options::declare_start(CommandLine& command_line) {
  command_line.text("--init", init, "safetensors file whose parameters training starts from");
  command_line.flag("--resume", resume, "continue the run that wrote --checkpoint");
  command_line.flag("--evaluate", evaluate, "only test the parameters of --init or --resume");
  command_line.check([this] {
    if (resume && checkpoint.empty()) throw Error("--resume: needs --checkpoint FILE");
    if (resume && !init.empty()) throw Error("--init: cannot be combined with --resume");
    if (evaluate && !resume && init.empty()) {
      throw Error("--evaluate: needs the parameters of --init FILE or --resume");
    }
    if (evaluate && dataset == "synthetic") {
      throw Error("--evaluate: the synthetic data set has no test set");
    }
  });
}

// --explain has its own model, data and optimizer, and rejects flags that would change them.
void Options::check_explain(const CommandLine& command_line, int ranks) const {
  if (ranks != 2) throw Error(fmt::format("--explain: needs 2 ranks, not {}", ranks));
  const std::set<std::string> meant{"--explain", "--device",  "--backend", "--algorithm",
                                    "--overlap", "--threads", "--json",    "--trace",
                                    "--strict",  "--timeout"};
  for (const auto& [flag, text] : command_line.values()) {
    if (command_line.given(flag) && !meant.contains(flag)) {
      throw Error(fmt::format("--explain: cannot be combined with {}", flag));
    }
  }
}

void Options::check_shard() const {
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

void Options::divide_global_batch(const CommandLine& command_line, int ranks) {
  if (scale_lr) {
    throw Error("--scale-lr: --global-batch does not grow with the number of ranks");
  }
  if (command_line.given("--batch-size")) {
    throw Error("--global-batch: cannot be combined with --batch-size");
  }
  batch_size = global_batch / static_cast<std::size_t>(ranks);
  if (batch_size * static_cast<std::size_t>(ranks) != global_batch) {
    throw Error(
        fmt::format("--global-batch: {} is not divisible by {} ranks", global_batch, ranks));
  }
}

void Options::settle_deterministic(const CommandLine& command_line, int ranks) {
  constexpr int kRanks = VirtualRanks::kCount;
  const auto reject = [](const std::string& why) { throw Error("--deterministic: " + why); };
  if (ranks > kRanks || !std::has_single_bit(static_cast<unsigned>(ranks))) {
    reject(
        fmt::format("the {} virtual ranks need 1, 2, 4 or 8 processes, not {}", kRanks, ranks));
  }
  if (backend != "auto" && backend != "ours") {
    reject("adds gradients in its own fixed tree and cannot use --backend " + backend);
  }
  for (const char* flag : {"--algorithm", "--first-bucket-mb", "--bucket-cap-mb"}) {
    if (!command_line.given(flag)) continue;
    reject(fmt::format("adds all gradients at once in its own fixed tree and cannot use {}",
                       flag));
  }
  if (data_parallel != "ddp") reject("cannot be combined with --data-parallel naive");
  if (overlap.value_or(false)) {
    reject("sends only after backward, so it cannot use --overlap");
  }
  if (accumulate > 1) reject("cannot be combined with --accumulate above 1");
  if (common.threads > 1) {
    reject(
        "needs --threads 1, because several threads would change the order of the sums in a "
        "matrix product");
  }
  const std::size_t batch = batch_size * static_cast<std::size_t>(ranks);
  if (batch % kRanks != 0) {
    reject(fmt::format("a batch of {} over all ranks ({}) is not divisible by {}", batch,
                       global_batch > 0 ? "--global-batch" : "--batch-size times ranks",
                       kRanks));
  }
  backend = "ours";
  overlap = false;
}

std::size_t Options::total_steps(std::size_t done, std::size_t epoch, std::size_t left,
                                 std::size_t per_epoch) const {
  // A run that has already finished all its epochs or steps takes no more steps.
  const std::size_t all =
      epoch < epochs ? done + left + (epochs - epoch - 1) * per_epoch : done;
  return max_steps == 0 ? all : std::max(done, std::min(all, max_steps));
}

}  // namespace dist
