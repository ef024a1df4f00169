#include "05_ddp_training/trainer/options.hpp"

#include "common/atomic_file.hpp"

#include <algorithm>
#include <set>

namespace dist {
namespace {

// Sets the defaults that depend on the optimizer, and rejects flags of other optimizers. Like
// torch.optim.Adam, it rejects momentum: if momentum were ignored, it would seem to work.
void settle_optimizer(const CommandLine& flags, OptimizerOptions& options) {
  const bool sgd = options.name == "sgd";
  if (!flags.given("--lr") && sgd) options.lr = 0.01;
  if (!flags.given("--weight-decay") && options.name == "adamw") options.weight_decay = 0.01;
  const auto is_for = [&](const char* flag, bool is_right, const char* optimizer) {
    check_usage(is_right || !flags.given(flag), "{}: is for --optimizer {}, not for {}", flag,
                optimizer, options.name);
  };
  for (const char* flag : {"--momentum", "--dampening", "--nesterov"}) is_for(flag, sgd, "sgd");
  for (const char* flag : {"--betas", "--eps"}) is_for(flag, !sgd, "adam and adamw");
  const bool momentum = options.momentum > 0;
  check_usage(!options.nesterov || momentum, "--nesterov: needs --momentum above 0");
  check_usage(!options.nesterov || options.dampening == 0, "--nesterov: needs --dampening 0");
  check_usage(options.dampening == 0 || momentum, "--dampening: needs --momentum above 0");
  // If beta is 1, the running mean and its correction both stay 0, and the result is 0 / 0.
  check_usage(std::ranges::count(options.betas, 1.0) == 0, "--betas: must be below 1");
}

// --explain has its own model, data and optimizer, and rejects flags that would change them.
void check_explain(const CommandLine& flags, int ranks) {
  check_usage(ranks == 2, "--explain: needs 2 ranks, not {}", ranks);
  const std::set<std::string> meant{"--explain", "--device",  "--backend", "--algorithm",
                                    "--overlap", "--threads", "--json",    "--trace",
                                    "--strict",  "--timeout"};
  for (const auto& [flag, text] : flags.values()) {
    check_usage(!flags.given(flag) || meant.contains(flag),
                "--explain: cannot be combined with {}", flag);
  }
}

// Rejects flags that contradict --deterministic, and sets the defaults that it needs.
void settle_deterministic(const CommandLine& flags, Options& options) {
  const auto reject_if = [](bool contradicts, const std::string& why) {
    check_usage(!contradicts, "--deterministic: {}", why);
  };
  const std::string& backend = options.backend;
  reject_if(backend != "auto" && backend != "ours",
            "adds gradients in its own fixed tree and cannot use --backend " + backend);
  for (const std::string flag : {"--algorithm", "--first-bucket-mb", "--bucket-cap-mb"}) {
    reject_if(flags.given(flag),
              "adds all gradients at once in its own fixed tree and cannot use " + flag);
  }
  reject_if(options.pretend_link > 0,
            "adds gradients in its own fixed tree, which --pretend-link does not slow down");
  reject_if(options.overlap.value_or(false),
            "sends only after backward, so it cannot use --overlap");
  reject_if(options.accumulate > 1, "cannot be combined with --accumulate above 1");
  reject_if(options.common.threads > 1,
            "needs --threads 1, because several threads would change the order of the sums in "
            "a matrix product");
  options.backend = "ours";
  options.overlap = false;
}

}  // namespace

void Options::declare_training(CommandLine& flags, bool writes) {
  constexpr std::size_t kMany = 1 << 30;
  constexpr std::size_t kWide = 1 << 24;
  flags.choice("--dataset", dataset, {"digits", "synthetic", "idx"}, "training data");
  flags.text("--data", data, "folder of IDX files (MNIST's format), for --dataset idx");
  flags.list("--layers", layers, "widths of the layers; ReLU between them");
  flags.number("--batch-size", batch_size, 1, kWide, "samples per rank");
  flags.number("--epochs", epochs, 1, kMany, "passes over the data");
  flags.choice("--optimizer", optimizer.name, {"sgd", "adam", "adamw"}, "optimizer");
  flags.number("--lr", optimizer.lr, 0.0, 1e6, "learning rate; default for sgd: 0.01");
  flags.text("--checkpoint", checkpoint, "safetensors file to write at the end");
  common.declare(flags);

  flags.advanced();
  flags.number("--samples", samples, 1, kMany, "number of samples of --dataset synthetic");
  flags.number("--classes", classes, 1, kWide, "number of classes of --dataset synthetic");
  flags.number("--test-fraction", test_fraction, 0.0, 0.9,
               "fraction of a single pair of IDX files that is used for testing");
  flags.number("--max-steps", max_steps, 1, kMany, "stop after this many steps");
  flags.number("--weight-decay", optimizer.weight_decay, 0.0, 1e6,
               "pulls parameters towards 0; default for adamw: 0.01");
  flags.number("--momentum", optimizer.momentum, 0.0, 1.0,
               "sgd: fraction of the previous step that is kept");
  flags.number("--dampening", optimizer.dampening, 0.0, 1.0,
               "sgd: fraction of a gradient that momentum ignores");
  flags.flag("--nesterov", optimizer.nesterov, "sgd: momentum that looks one step ahead");
  flags.numbers("--betas", optimizer.betas, 0.0, 1.0,
                "adam, adamw: fraction of the running means kept per step");
  flags.number("--eps", optimizer.eps, 0.0, 1e6, "adam, adamw: added to the divisor");
  flags.number("--warmup-steps", optimizer.warmup_steps, 0, kMany,
               "the learning rate rises linearly over this many steps");
  flags.number("--clip-norm", optimizer.clip_norm, 0.0, 1e30,
               "scales gradients down to this norm of all of them; 0: never");
  flags.flag("--shuffle,!--no-shuffle", sampler.shuffle, "random order (the default)");
  flags.number("--sampler-seed", sampler.seed, 0, 1ULL << 62,
               "seed of the sample order; separate from --seed, as in PyTorch");
  flags.flag("--drop-last", sampler.drop_last,
             "drop the samples left over when dividing among the ranks");
  flags.flag("--loader-drop-last", loader_drop_last, "drop a short last batch");
  flags.flag("--graph,!--no-graph", graph,
             "on a GPU, record a step once and replay it (the default)");
  flags.choice("--precision", precision, {"fp32", "bf16"},
               "of the matrix products; all else stays fp32");
  flags.number("--checkpoint-every", checkpoint_every, 1, kMany, "steps between checkpoints");
  flags.text("--metrics", metrics, "file of JSON lines, one per step");

  flags.check([this, &flags, writes] {
    settle_optimizer(flags, optimizer);
    layers_given = flags.given("--layers");
    check_usage(layers.size() >= 2, "--layers: needs at least an input and an output width");
    check_usage((dataset == "idx") == flags.given("--data"),
                "--data: must be given together with --dataset idx");
    check_usage(checkpoint_every == 0 || !checkpoint.empty(),
                "--checkpoint-every: needs --checkpoint FILE");
    // Find out now rather than after hours of training.
    if (writes) claim("--checkpoint", evaluate ? "" : checkpoint);
    if (writes) claim("--metrics", metrics);
    // If --max-steps is given without --epochs, only the number of steps ends the run.
    if (max_steps > 0 && !flags.given("--epochs")) epochs = max_steps;
  });
}

void Options::declare_parallel(CommandLine& flags, int ranks) {
  flags.number("--global-batch", global_batch, 1, 1 << 30,
               "samples per step over all ranks, instead of --batch-size");
  flags.number("--accumulate", accumulate, 1, 1 << 20,
               "batches per optimizer step, averaged with one all-reduce");
  flags.choice("--backend", backend, {"auto", "ours", "mpi", "nccl"},
               "what carries gradients; auto: nccl with a GPU per rank, else ours");
  flags.choice("--algorithm", algorithm,
               {"auto", "naive", "recursive-doubling", "ring", "ring-pipelined", "rabenseifner",
                "shared-memory", "hierarchical", "mpi"},
               "all-reduce algorithm of --backend ours");
  flags.flag("--scale-lr", scale_lr,
             "multiply the learning rate by the number of ranks, after a warm-up");
  flags.number("--bucket-cap-mb", bucket_cap_mb, 0.0, 1024.0,
               "MiB after which a bucket is closed; 25 with --backend nccl");
  flags.number("--first-bucket-mb", first_bucket_mb, 0.0, 1024.0,
               "--bucket-cap-mb for the first bucket, which is ready early");
  flags.flag("--overlap,!--no-overlap", overlap_flag,
             "run all-reduces on a separate thread; default: if a core is free");
  flags.number("--pretend-link", pretend_link, 0.01, 1e6,
               "ours, mpi: communication takes as long as on a link of this many Gbit/s");
  flags.choice("--shard", shard, {"none", "optimizer", "gradients", "parameters"},
               "what each rank keeps only a part of; each name includes those before");
  flags.flag("--deterministic", deterministic,
             "bitwise equal results on 1, 2, 4 and 8 ranks; slower");
  flags.number("--check-replicas", check_replicas, 0, 1 << 30,
               "steps between comparisons of the replicas; 0: never");
  flags.flag("--explain", explain,
             "show every number of one step on two ranks, to check by hand");
  flags.check([this, &flags, ranks] {
    if (explain) check_explain(flags, ranks);
    const bool ours = backend == "auto" || backend == "ours";
    check_usage(ours || !flags.given("--algorithm"),
                "--algorithm: needs --backend ours, not {}", backend);
    if (shard != "none") {
      check_usage(!deterministic, "--shard: cannot be combined with --deterministic");
      const bool halves =
          algorithm == "ring" || algorithm == "shared-memory" || algorithm == "auto";
      check_usage(!ours || halves,
                  "--shard: needs the two halves of an all-reduce, which --algorithm {} does "
                  "not have (ring, shared-memory and auto do)",
                  algorithm);
    }
    if (flags.given("--overlap")) overlap = overlap_flag;
    if (pretend_link > 0 && !overlap) overlap = true;  // sleeping needs no core
    bucket_cap_given = flags.given("--bucket-cap-mb");
    if (global_batch > 0) {
      check_usage(!scale_lr,
                  "--scale-lr: --global-batch does not grow with the number of ranks");
      check_usage(!flags.given("--batch-size"),
                  "--global-batch: cannot be combined with --batch-size");
      const auto divisor = static_cast<std::size_t>(ranks);
      check_usage(global_batch % divisor == 0,
                  "--global-batch: {} is not divisible by {} ranks", global_batch, ranks);
      batch_size = global_batch / divisor;
    }
    if (deterministic) settle_deterministic(flags, *this);
  });
}

void Options::declare_start(CommandLine& flags) {
  flags.text("--init", init, "safetensors file whose parameters training starts from");
  flags.flag("--resume", resume, "continue the run that wrote --checkpoint");
  flags.flag("--evaluate", evaluate, "only test the parameters of --init or --resume");
  flags.check([this] {
    check_usage(!resume || !checkpoint.empty(), "--resume: needs --checkpoint FILE");
    check_usage(!resume || init.empty(), "--init: cannot be combined with --resume");
    check_usage(!evaluate || resume || !init.empty(),
                "--evaluate: needs the parameters of --init FILE or --resume");
    check_usage(!evaluate || dataset != "synthetic",
                "--evaluate: the synthetic data set has no test set");
  });
}

std::size_t Options::total_steps(std::size_t done, std::size_t epoch, std::size_t left,
                                 std::size_t per_epoch) const {
  // A run that has already finished all its epochs or steps takes no more steps.
  const std::size_t all =
      epoch < epochs ? done + left + (epochs - epoch - 1) * per_epoch : done;
  return max_steps == 0 ? all : std::max(done, std::min(all, max_steps));
}

}  // namespace dist
