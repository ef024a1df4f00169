// Right: calls the lesson's own function. Some wrong solutions are edited copies of this file.
#pragma once

#include "02_broadcast/binomial_tree.hpp"

namespace dist::exercise {

inline void tree_broadcast(const Communicator& comm, std::span<float> data, int root) {
  broadcast_tree<float>(comm, data, root);
}

}  // namespace dist::exercise
