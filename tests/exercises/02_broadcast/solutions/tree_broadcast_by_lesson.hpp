// Right: calls the lesson's own function; some of the wrong ones are edits of this.
#pragma once

#include "02_broadcast/binomial_tree.hpp"

namespace dist::exercise {

inline void tree_broadcast(const Communicator& comm, std::span<float> data, int root) {
  broadcast_tree<float>(comm, data, root);
}

}  // namespace dist::exercise
