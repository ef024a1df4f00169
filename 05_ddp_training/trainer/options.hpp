// What this file adds: all flags of a training run, each with its default. options.cpp has
// their limits, their help and the checks that they fit together.
//
// A new flag needs a member here, a line in options.cpp, and the place that uses it. Ranks and
// checkpoints compare it from then on, unless checkpoint/run_settings.cpp excludes it.
#pragma once

#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/optimizer/optimizer_options.hpp"
#include "common/command_line.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace dist {

struct Options {
  CommonOptions common;

  std::string dataset = "digits";
  std::string data;            // folder of IDX files
  std::size_t samples = 1000;  // of the synthetic set
  std::size_t classes = 10;    // of the synthetic set
  double test_fraction = 0.2;  // the part tested on, if there is only one pair of IDX files

  std::vector<std::size_t> layers{784, 512, 512, 512, 10};
  bool layers_given = false;
  std::size_t batch_size = 64;  // per rank
  std::size_t epochs = 5;
  std::size_t max_steps = 0;  // 0: no limit
  OptimizerOptions optimizer;

  SamplerOptions sampler;
  bool loader_drop_last = false;
  bool graph = true;               // on a GPU
  std::string precision = "fp32";  // of the matrix products; or bf16

  std::string checkpoint;            // empty: none
  std::size_t checkpoint_every = 0;  // steps; 0: at the end only
  std::string metrics;               // empty: none
  std::string init;                  // a file of parameters to start from; empty: none
  bool resume = false;
  bool evaluate = false;  // test the parameters, without training

  // What only data parallelism needs.
  std::size_t global_batch = 0;  // 0: use --batch-size
  std::size_t accumulate = 1;    // batches per optimizer step
  std::string backend = "auto";
  std::string algorithm = "ring";
  std::string data_parallel = "ddp";
  bool scale_lr = false;
  double bucket_cap_mb = 1.0;
  bool bucket_cap_given = false;
  double first_bucket_mb = 1.0;
  std::optional<bool> overlap;  // unset: overlap if a core is free for it
  std::string shard = "none";   // or optimizer, gradients, parameters
  bool deterministic = false;
  std::size_t check_replicas = 100;  // steps between comparisons; 0: no comparisons
  bool explain = false;

  // Add the flags and their checks, in this order: those of any training program, those of data
  // parallelism on `ranks` ranks, and those that say where training starts. With `writes` (on
  // one rank), the first also checks that the output files can be written.
  void declare_training(CommandLine& command_line, bool writes);
  void declare_parallel(CommandLine& command_line, int ranks);
  void declare_start(CommandLine& command_line);

  // The total number of steps at the end of training: `done` before this run, `left` in its
  // first epoch (number `epoch`, from 0), and `per_epoch` in each later one.
  std::size_t total_steps(std::size_t done, std::size_t epoch, std::size_t left,
                          std::size_t per_epoch) const;

 private:
  void check_explain(const CommandLine& command_line, int ranks) const;
  void check_shard() const;
  // Divides --global-batch by the number of ranks: the result is the batch size.
  void divide_global_batch(const CommandLine& command_line, int ranks);
  // Rejects flags that contradict --deterministic, and sets the defaults that it needs.
  void settle_deterministic(const CommandLine& command_line, int ranks);

  bool overlap_flag_ = true;
};

}  // namespace dist
