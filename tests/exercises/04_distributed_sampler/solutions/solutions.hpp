// The known solutions of lesson 4, right and wrong.
#pragma once

#include "tests/exercises/04_distributed_sampler/checks.hpp"

#include <vector>

namespace dist::exercise {

std::vector<Solution> sampler_solutions();
std::vector<Solution> resume_solutions();
std::vector<Solution> mean_solutions();

}  // namespace dist::exercise
