// The known solutions of lesson 2, right and wrong.
#pragma once

#include "tests/exercises/02_broadcast/checks.hpp"

#include <vector>

namespace dist::exercise {

std::vector<Solution> tree_broadcast_solutions();
std::vector<Solution> tree_reduce_solutions();
std::vector<Solution> scatter_all_gather_solutions();

}  // namespace dist::exercise
