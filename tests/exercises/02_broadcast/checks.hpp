// The checks of lesson 2's exercises.
#pragma once

#include "tests/exercises/message_checks.hpp"

namespace dist::exercise {

using Broadcast = std::function<void(const Communicator&, std::span<float>, int root)>;

std::vector<Check> checks_of_tree_broadcast(const Broadcast& solution);
std::vector<Check> checks_of_scatter_all_gather(const Broadcast& solution);

}  // namespace dist::exercise
