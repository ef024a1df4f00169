// The experiments of lesson 4: build/bin/broken/distributed_sampler NAME. Each is in the file
// of its name.
#include "tools/break_it/experiment.hpp"

#include <array>

namespace dist {

using Show = bool(const Program&);
Show break_no_sampler, break_no_set_epoch, break_rank_seed, break_uneven;

std::span<const Experiment> experiments() {
  static constexpr std::array kExperiments{
      Experiment{"no-sampler", "DDP splits the data", break_no_sampler},
      Experiment{"no-set-epoch", "the sampler reshuffles automatically", break_no_set_epoch},
      Experiment{"rank-seed", "a different seed on each rank shuffles better", break_rank_seed},
      Experiment{"uneven", "a remainder is harmless", break_uneven},
  };
  return kExperiments;
}

}  // namespace dist
