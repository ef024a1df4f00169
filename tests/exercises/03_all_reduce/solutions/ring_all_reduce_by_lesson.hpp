// Right: calls the lesson's own function. Some wrong solutions are edited copies of this file.
#pragma once

#include "03_all_reduce/ring.hpp"

namespace dist::exercise {

inline void ring_all_reduce(const Communicator& comm, std::span<float> data) {
  all_reduce_ring<float>(comm, data, ReduceOp::avg);
}

}  // namespace dist::exercise
