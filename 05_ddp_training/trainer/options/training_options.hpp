// The training flags for one process or many.
#pragma once

#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/optimizer/optimizer_options.hpp"
#include "common/command_line.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace dist {

struct TrainingOptions {
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

  // Adds the flags, and a check that they are consistent. With `writes` (on one rank), also
  // checks that the output files can be written.
  void declare(CommandLine& command_line, bool writes);

  // The total number of steps at the end of training: `done` before this run, `left` in its
  // first epoch (number `epoch`, from 0), and `per_epoch` in each later one.
  std::size_t total_steps(std::size_t done, std::size_t epoch, std::size_t left,
                          std::size_t per_epoch) const;
};

}  // namespace dist
