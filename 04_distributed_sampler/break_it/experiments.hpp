// The experiments of lesson 4, each in the file that bears its name. To run one:
// build/bin/broken/distributed_sampler NAME.
#pragma once

#include "common/program.hpp"

namespace dist {

bool break_no_sampler(const Program& program);
bool break_no_set_epoch(const Program& program);
bool break_rank_seed(const Program& program);
bool break_pad_eval(const Program& program);
bool break_uneven(const Program& program);
bool break_mean_of_means(const Program& program);

}  // namespace dist
