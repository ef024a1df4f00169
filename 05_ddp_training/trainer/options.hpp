// What this file adds: all flags of a training run, each with its default. options.cpp has
// their limits, their help and the checks that they fit together.
//
// A new flag needs a member here, a line in options.cpp, and the place that uses it. Ranks and
// checkpoints compare it from then on, unless checkpoint/run_settings.cpp excludes it.
#pragma once

#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/optimizer/optimizer_options.hpp"
#include "common/check.hpp"
#include "common/command_line.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dist {

// Throws Error unless `holds`. The reason begins with the flag: "--layers: needs ...".
template <class... T>
void check_usage(bool holds, fmt::format_string<T...> why, T&&... values) {
  if (!holds) throw Error(fmt::format(why, std::forward<T>(values)...));
}

struct Options {
  CommonOptions common;

  std::string dataset = "digits", data;
  std::size_t samples = 1000, classes = 10;
  double test_fraction = 0.2;

  std::vector<std::size_t> layers{784, 512, 512, 512, 10};
  bool layers_given = false;
  std::size_t batch_size = 64, epochs = 5;
  std::size_t max_steps = 0;  // 0: no limit
  OptimizerOptions optimizer;

  SamplerOptions sampler;
  bool loader_drop_last = false;
  bool graph = true;
  std::string precision = "fp32";

  std::string checkpoint, metrics, init;  // files; empty: none
  std::size_t checkpoint_every = 0;       // 0: at the end only
  bool resume = false, evaluate = false;

  // What only data parallelism needs.
  std::size_t global_batch = 0;  // 0: use --batch-size
  std::size_t accumulate = 1;
  std::string backend = "auto", algorithm = "ring";
  bool scale_lr = false;
  double bucket_cap_mb = 1.0, first_bucket_mb = 1.0;
  bool bucket_cap_given = false;
  std::optional<bool> overlap;  // unset: overlap if a core is free for it
  bool overlap_flag = true;     // its value if it is given
  double pretend_link = 0;      // Gbit/s; 0: as fast as messages are here
  std::string shard = "none";
  bool deterministic = false;
  std::size_t check_replicas = 100;  // 0: never
  bool explain = false;

  // Add the flags and their checks, in this order: those of any training program, those of data
  // parallelism on `ranks` ranks, and those that say where training starts. With `writes` (on
  // one rank), the first also checks that the output files can be written.
  void declare_training(CommandLine& flags, bool writes);
  void declare_parallel(CommandLine& flags, int ranks);
  void declare_start(CommandLine& flags);

  // The total number of steps at the end of training: `done` before this run, `left` in its
  // first epoch (number `epoch`, from 0), and `per_epoch` in each later one.
  std::size_t total_steps(std::size_t done, std::size_t epoch, std::size_t left,
                          std::size_t per_epoch) const;
};

}  // namespace dist
