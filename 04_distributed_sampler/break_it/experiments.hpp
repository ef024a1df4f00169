// What lesson 4 breaks on purpose: `distributed_sampler --break NAME`. Each stands in the file
// of its name.
#pragma once

#include "tools/broken/break_it.hpp"

#include <array>

namespace dist {

bool break_no_sampler(const BreakIt& with);
bool break_no_set_epoch(const BreakIt& with);
bool break_rank_seed(const BreakIt& with);
bool break_pad_eval(const BreakIt& with);
bool break_uneven(const BreakIt& with);
bool break_mean_of_means(const BreakIt& with);

inline constexpr std::array kSamplerExperiments{
    Experiment{"no-sampler", "DDP splits the data", break_no_sampler},
    Experiment{"no-set-epoch", "the sampler reshuffles by itself", break_no_set_epoch},
    Experiment{"rank-seed", "a seed of its own for each rank shuffles more", break_rank_seed},
    Experiment{"pad-eval", "each rank sees unique samples", break_pad_eval},
    Experiment{"uneven", "a remainder is harmless", break_uneven},
    Experiment{"mean-of-means", "averaging is always exact", break_mean_of_means},
};

}  // namespace dist
