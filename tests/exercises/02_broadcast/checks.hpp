// The checks of lesson 2's exercises.
#pragma once

#include "tests/exercises/exercise.hpp"

#include <functional>
#include <span>
#include <vector>

namespace dist::exercise {

using Broadcast = std::function<void(const Communicator&, std::span<float>, int root)>;
using Reduce = std::function<void(const Communicator&, std::span<const float>, std::span<float>,
                                  int root)>;

// tree_broadcast_checks.cpp, tree_reduce_checks.cpp, scatter_all_gather_checks.cpp
std::vector<Check> checks_of_tree_broadcast(const Broadcast& solution);
std::vector<Check> checks_of_tree_reduce(const Reduce& solution);
std::vector<Check> checks_of_scatter_all_gather(const Broadcast& solution);

}  // namespace dist::exercise
