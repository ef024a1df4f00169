// Right: calls the lesson's own function. Some wrong solutions are edited copies of this file.
#pragma once

#include "03_all_reduce/ring.hpp"

namespace dist::exercise {

inline void ring_all_gather(const Communicator& comm, std::span<float> data) {
  dist::ring_all_gather<float>(comm, data);
}

}  // namespace dist::exercise
