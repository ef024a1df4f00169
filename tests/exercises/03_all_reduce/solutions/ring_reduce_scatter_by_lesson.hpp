// Right: calls the lesson's own function. Some wrong solutions are edited copies of this file.
#pragma once

#include "03_all_reduce/ring.hpp"

namespace dist::exercise {

inline void ring_reduce_scatter(const Communicator& comm, std::span<float> data) {
  dist::ring_reduce_scatter<float>(comm, data, ReduceOp::sum);
}

}  // namespace dist::exercise
