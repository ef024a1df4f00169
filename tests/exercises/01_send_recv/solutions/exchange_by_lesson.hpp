// Right: calls the lesson's own function. Some wrong solutions are edited copies of this file.
#pragma once

#include "01_send_recv/send_recv.hpp"

namespace dist::exercise {

inline void exchange(const Communicator& comm, int peer, std::span<const float> out,
                     std::span<float> in) {
  send_recv<float>(comm, out, peer, in, peer);
}

}  // namespace dist::exercise
