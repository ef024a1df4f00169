#include "04_distributed_sampler/break_it/experiments.hpp"

#include "tools/broken/experiment.hpp"

#include <array>

namespace dist {
namespace {

constexpr std::array kExperiments{
    Experiment{"no-sampler", "DDP splits the data", break_no_sampler},
    Experiment{"no-set-epoch", "the sampler reshuffles automatically", break_no_set_epoch},
    Experiment{"rank-seed", "a different seed on each rank shuffles better", break_rank_seed},
    Experiment{"pad-eval", "each rank sees unique samples", break_pad_eval},
    Experiment{"uneven", "a remainder is harmless", break_uneven},
    Experiment{"mean-of-means", "averaging is always exact", break_mean_of_means},
};

}  // namespace

std::span<const Experiment> experiments() {
  return kExperiments;
}

}  // namespace dist
