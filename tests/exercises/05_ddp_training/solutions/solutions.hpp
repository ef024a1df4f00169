// The known solutions of lesson 5, right and wrong.
#pragma once

#include "tests/exercises/05_ddp_training/checks.hpp"

#include <vector>

namespace dist::exercise {

std::vector<Solution> sync_solutions();
std::vector<Solution> accumulate_solutions();
std::vector<Solution> overlap_solutions();
std::vector<Solution> checkpoint_solutions();
std::vector<Solution> nccl_solutions();  // none but in the emulated build

}  // namespace dist::exercise
