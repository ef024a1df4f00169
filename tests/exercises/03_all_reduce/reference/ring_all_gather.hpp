// The reference, written out. Most wrong solutions are edited copies of it.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"

#include <span>
#include <vector>

namespace dist::exercise {

inline void ring_all_gather(const Communicator& comm, std::span<float> data) {
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  for (int step = 0; step < comm.size() - 1; ++step) {
    const std::span<float> out = chunk(comm.rank() - step);
    const std::span<float> in = chunk(comm.rank() - 1 - step);
    send_recv<float>(comm, out, comm.right(), in, comm.left());
  }
}

}  // namespace dist::exercise
