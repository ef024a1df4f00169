// The known solutions of lesson 3, right and wrong.
#pragma once

#include "tests/exercises/03_all_reduce/checks.hpp"

#include <vector>

namespace dist::exercise {

std::vector<Solution> ring_solutions();
std::vector<Solution> leftward_solutions();
std::vector<Solution> choice_solutions();
std::vector<Solution> nccl_solutions();  // none but in the emulated build

}  // namespace dist::exercise
