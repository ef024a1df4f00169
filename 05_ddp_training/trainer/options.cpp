#include "05_ddp_training/trainer/options.hpp"

#include "common/atomic_file.hpp"

#include <algorithm>
#include <set>

namespace dist {

std::string other_defaults(double OptimizerFacts::*value) {
  std::string text;
  for (const OptimizerFacts& each : kOptimizers) {
    if (each.*value == facts(OptimizerOptions().kind).*value) continue;
    text += fmt::format("; default for {}: {:g}", each.name, each.*value);
  }
  return text;
}

static bool has(const OptimizerFacts& optimizer, std::string_view flag) {
  return std::ranges::count(optimizer.flags, flag) > 0;
}

static std::vector<std::string_view> optimizers_with(std::string_view flag) {
  std::vector<std::string_view> names;
  for (const OptimizerFacts& each : kOptimizers) {
    if (has(each, flag)) names.push_back(each.name);
  }
  return names;
}

std::string only_for(std::string_view flag) {
  return fmt::format("{}: ", fmt::join(optimizers_with(flag), ", "));
}

// Sets the defaults that depend on the optimizer, and rejects flags of other optimizers. Like
// torch.optim.Adam, it rejects momentum: if momentum were ignored, it would seem to work.
static void settle_optimizer(const CommandLine& flags, OptimizerOptions& options) {
  const OptimizerFacts& chosen = facts(options.kind);
  if (!flags.given("--lr")) options.lr = chosen.lr;
  if (!flags.given("--weight-decay")) options.weight_decay = chosen.weight_decay;
  for (const OptimizerFacts& other : kOptimizers) {
    for (const std::string_view flag : other.flags) {
      if (flag.empty() || has(chosen, flag) || !flags.given(std::string(flag))) continue;
      throw Error(fmt::format("{}: is for --optimizer {}, not for {}", flag,
                              fmt::join(optimizers_with(flag), " and "), chosen.name));
    }
  }
  const bool momentum = options.momentum > 0;
  check_usage(!options.nesterov || momentum, "--nesterov: needs --momentum above 0");
  check_usage(!options.nesterov || options.dampening == 0, "--nesterov: needs --dampening 0");
  check_usage(options.dampening == 0 || momentum, "--dampening: needs --momentum above 0");
  // If beta is 1, the running mean and its correction both stay 0, and the result is 0 / 0.
  check_usage(std::ranges::count(options.betas, 1.0) == 0, "--betas: must be below 1");
}

// --explain has its own model, data and optimizer, and rejects flags that would change them.
static void check_explain(const CommandLine& flags, int ranks) {
  check_usage(ranks == 2, "--explain: needs 2 ranks, not {}", ranks);
  const std::set<std::string> meant{"--explain", "--device",  "--backend", "--algorithm",
                                    "--overlap", "--threads", "--json",    "--trace",
                                    "--strict",  "--timeout", "--matmul"};
  for (const CommandLine::Value& value : flags.values()) {
    check_usage(!flags.given(value.flag) || meant.contains(value.flag),
                "--explain: cannot be combined with {}", value.flag);
  }
}

// Rejects flags that contradict --deterministic, and sets the defaults that it needs.
static void settle_deterministic(const CommandLine& flags, int threads, Options& options) {
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
  reject_if(options.overlap.value_or(false),
            "sends only after backward, so it cannot use --overlap");
  reject_if(options.accumulate > 1, "cannot be combined with --accumulate above 1");
  reject_if(threads > 1,
            "needs --threads 1, because several threads would change the order of the sums in "
            "a matrix product");
  options.backend = "ours";
  options.overlap = false;
}

void Options::settle(const CommandLine& flags, int threads, int ranks, bool writes) {
  check_usage(!deterministic || pretend_link == 0,
              "--deterministic: adds gradients in its own fixed tree, which --pretend-link "
              "does not slow down");
  if (pretend_link > 0 && !overlap) overlap = true;  // sleeping needs no core
  settle_optimizer(flags, optimizer);
  check_usage((dataset == DatasetKind::idx) == flags.given("--data"),
              "--data: must be given together with --dataset idx");
  check_usage(checkpoint_every == 0 || !checkpoint.empty(),
              "--checkpoint-every: needs --checkpoint FILE");
  // Find out now rather than after hours of training.
  if (writes) claim("--checkpoint", evaluate ? "" : checkpoint);
  if (writes) claim("--metrics", metrics);
  // If --max-steps is given without --epochs, only the number of steps ends the run.
  if (max_steps > 0 && !flags.given("--epochs")) epochs = max_steps;

  if (explain) check_explain(flags, ranks);
  const bool ours = backend == "auto" || backend == "ours";
  check_usage(ours || !flags.given("--algorithm"), "--algorithm: needs --backend ours, not {}",
              backend);
  if (shard != "none") {
    check_usage(!deterministic, "--shard: cannot be combined with --deterministic");
    const bool halves = algorithm == AllReduceAlgorithm::ring ||
                        algorithm == AllReduceAlgorithm::shared_memory ||
                        algorithm == AllReduceAlgorithm::automatic;
    check_usage(!ours || halves,
                "--shard: needs the two halves of an all-reduce, which --algorithm {} does "
                "not have (ring, shared-memory and auto do)",
                to_string(algorithm));
  }
  if (global_batch > 0) {
    check_usage(!scale_lr, "--scale-lr: --global-batch does not grow with the number of ranks");
    check_usage(!flags.given("--batch-size"),
                "--global-batch: cannot be combined with --batch-size");
    const auto divisor = static_cast<std::size_t>(ranks);
    check_usage(global_batch % divisor == 0, "--global-batch: {} is not divisible by {} ranks",
                global_batch, ranks);
    batch_size = global_batch / divisor;
  }
  if (deterministic) settle_deterministic(flags, threads, *this);

  check_usage(!resume || !checkpoint.empty(), "--resume: needs --checkpoint FILE");
  check_usage(!resume || init.empty(), "--init: cannot be combined with --resume");
  check_usage(!evaluate || resume || !init.empty(),
              "--evaluate: needs the parameters of --init FILE or --resume");
  check_usage(!evaluate || dataset != DatasetKind::synthetic,
              "--evaluate: the synthetic data set has no test set");
}

}  // namespace dist
