// Right: calls the lesson's own function. Some wrong solutions are edited copies of this file.
#pragma once

#include "01_send_recv/send_recv.hpp"

namespace dist::exercise {

inline void ring_shift(const Communicator& comm, std::span<const float> out,
                       std::span<float> in) {
  send_recv<float>(comm, out, comm.right(), in, comm.left());
}

}  // namespace dist::exercise
