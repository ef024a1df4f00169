// What this file adds: all flags of a training run, each with its default, limits, help and
// effect. options.cpp checks that they fit together.
//
// A new flag needs a member and a line in declare(), both here, and the place that uses it. One
// that can change the results is declared on `flags`; a resumed run needs the same value.
#pragma once

#include "03_all_reduce/reduce_op.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/data_parallel/bucket_plan.hpp"
#include "05_ddp_training/model/matmul_library.hpp"
#include "05_ddp_training/optimizer/optimizer_options.hpp"
#include "common/check.hpp"
#include "common/command_line.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dist {

// Throws Error unless `holds`. The reason begins with the flag: "--layers: needs ...".
template <class... T>
void check_usage(bool holds, fmt::format_string<T...> why, T&&... values) {
  if (!holds) throw Error(fmt::format(why, std::forward<T>(values)...));
}

// "; default for sgd: 0.01", for each optimizer whose default differs from that of the default
// one.
std::string other_defaults(double OptimizerFacts::*value);
// "adam, adamw: ", the optimizers that have this flag.
std::string only_for(std::string_view flag);

enum class DatasetKind { digits, synthetic, idx };

// The names that --dataset accepts.
inline const Names<DatasetKind> kDatasets{{"digits", DatasetKind::digits},
                                          {"synthetic", DatasetKind::synthetic},
                                          {"idx", DatasetKind::idx}};

struct Options {
  DatasetKind dataset = DatasetKind::digits;
  std::string data;
  std::size_t samples = 1000, classes = 10;
  double test_fraction = 0.2;

  std::size_t batch_size = 64, epochs = 5;
  std::size_t max_steps = 0;  // 0: no limit
  OptimizerOptions optimizer;

  SamplerOptions sampler;
  bool loader_drop_last = false;
  bool graph = true;
  std::string precision = "fp32";
  MatmulLibrary matmul = MatmulLibrary::automatic;

  std::string checkpoint, metrics, init;  // files; empty: none
  std::size_t checkpoint_every = 0;       // 0: at the end only
  bool resume = false, evaluate = false;

  // What only data parallelism needs.
  std::size_t global_batch = 0;  // 0: use --batch-size
  std::size_t accumulate = 1;
  std::string backend = "auto";
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::ring;
  bool scale_lr = false;
  double bucket_cap_mb = BucketCaps().bytes / 0x1p20;
  double first_bucket_mb = BucketCaps().first_bytes / 0x1p20;
  std::optional<bool> overlap;  // unset: overlap if a core is free for it
  double pretend_link = 0;      // Gbit/s; 0: as fast as messages are here
  std::string shard = "none";
  bool deterministic = false;
  std::size_t check_replicas = 100;  // 0: never
  std::size_t line_every = 0;        // steps; 0: a line per epoch only
  bool explain = false;

  // Adds the flags and their checks. If this rank `writes`, checks the output files, too.
  void declare(CommandLine& flags, CommonOptions& common, int ranks, bool writes);
  // Checks that the flags fit together, and sets the defaults that depend on other flags.
  void settle(const CommandLine& flags, int threads, int ranks, bool writes);
};

inline void Options::declare(CommandLine& flags, CommonOptions& common, int ranks,
                             bool writes) {
  // These only change how sums are rounded, or nothing that is computed: the data is compared
  // by its content, and the batch size by the number of samples per step.
  CommandLine rounding = flags.only(Effect::rounding), neutral = flags.only(Effect::nothing);
  constexpr std::size_t kMany = 1 << 30;
  constexpr std::size_t kWide = 1 << 24;
  flags.choice("--dataset", dataset, kDatasets, "training data");
  neutral.text("--data", data, "folder of IDX files (MNIST's format), for --dataset idx");
  neutral.number("--batch-size", batch_size, 1, kWide, "samples per rank");
  neutral.number("--epochs", epochs, 1, kMany, "passes over the data");
  flags.choice("--optimizer", optimizer.kind, optimizer_names(), "optimizer");
  flags.number("--lr", optimizer.lr, 0.0, 1e6,
               "learning rate" + other_defaults(&OptimizerFacts::lr));
  neutral.text("--checkpoint", checkpoint, "safetensors file to write at the end");
  common.declare(flags);

  flags.advanced();
  flags.number("--samples", samples, 1, kMany, "number of samples of --dataset synthetic");
  flags.number("--classes", classes, 1, kWide, "number of classes of --dataset synthetic");
  flags.number("--test-fraction", test_fraction, 0.0, 0.9,
               "fraction of a single pair of IDX files that is used for testing");
  neutral.number("--max-steps", max_steps, 1, kMany, "stop after this many steps");
  flags.number("--weight-decay", optimizer.weight_decay, 0.0, 1e6,
               "pulls parameters towards 0" + other_defaults(&OptimizerFacts::weight_decay));
  flags.number("--momentum", optimizer.momentum, 0.0, 1.0,
               only_for("--momentum") + "fraction of the previous step that is kept");
  flags.number("--dampening", optimizer.dampening, 0.0, 1.0,
               only_for("--dampening") + "fraction of a gradient that momentum ignores");
  flags.flag("--nesterov", optimizer.nesterov,
             only_for("--nesterov") + "momentum that looks one step ahead");
  flags.numbers("--betas", optimizer.betas, 0.0, 1.0,
                only_for("--betas") + "fraction of the running means kept per step");
  flags.number("--eps", optimizer.eps, 0.0, 1e6, only_for("--eps") + "added to the divisor");
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
  rounding.flag("--graph,!--no-graph", graph,
                "on a GPU, record a step once and replay it (the default)");
  rounding.choice("--precision", precision, {"fp32", "bf16"},
                  "of the matrix products; all else stays fp32");
  declare_matmul(flags, matmul);
  neutral.number("--checkpoint-every", checkpoint_every, 1, kMany, "steps between checkpoints");
  neutral.text("--metrics", metrics, "file of JSON lines, one per step");
  neutral.number("--global-batch", global_batch, 1, 1 << 30,
                 "samples per step over all ranks, instead of --batch-size");
  flags.number("--accumulate", accumulate, 1, 1 << 20,
               "batches per optimizer step, averaged with one all-reduce");
  rounding.choice("--backend", backend, {"auto", "ours", "mpi", "nccl"},
                  "what carries gradients; auto: nccl with a GPU per rank, else ours");
  rounding.choice("--algorithm", algorithm, kAllReduceAlgorithms,
                  "all-reduce algorithm of --backend ours");
  flags.flag("--scale-lr", scale_lr,
             "multiply the learning rate by the number of ranks, after a warm-up");
  rounding.number("--bucket-cap-mb", bucket_cap_mb, 0.0, 1024.0,
                  "MiB after which a bucket is closed; 25 with --backend nccl");
  rounding.number("--first-bucket-mb", first_bucket_mb, 0.0, 1024.0,
                  "--bucket-cap-mb for the first bucket, which is ready early");
  neutral.flag("--overlap,!--no-overlap", overlap,
               "run all-reduces on a separate thread; default: if a core is free");
  neutral.number("--pretend-link", pretend_link, 0.01, 1e6,
                 "ours, mpi: communication takes as long as on a link of this many Gbit/s");
  rounding.choice("--shard", shard, {"none", "optimizer", "gradients", "parameters"},
                  "what each rank keeps only a part of; each name includes those before");
  flags.flag("--deterministic", deterministic,
             "bitwise equal results on 1, 2, 4 and 8 ranks; slower");
  neutral.number("--check-replicas", check_replicas, 0, 1 << 30,
                 "steps between comparisons of the replicas; 0: never");
  neutral.flag("--explain", explain,
               "show every number of one step on two ranks, to check by hand");
  neutral.text("--init", init, "safetensors file whose parameters training starts from");
  neutral.flag("--resume", resume, "continue the run that wrote --checkpoint");
  neutral.flag("--evaluate", evaluate, "only test the parameters of --init or --resume");
  flags.check([=, this, &flags, &common] { settle(flags, common.threads, ranks, writes); });
}

}  // namespace dist
