// The reference.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"

#include <span>
#include <vector>

namespace dist::exercise {

inline void leftward_ring(const Communicator& comm, std::span<float> data) {
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  for (int step = 0; step < comm.size() - 1; ++step) {
    const std::span<float> in = chunk(comm.rank() + 2 + step);
    std::vector<float> spare(in.size());
    send_recv<float>(comm, chunk(comm.rank() + 1 + step), comm.left(), spare, comm.right());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += spare[i];
  }
  for (int move = 0; move < comm.size() - 1; ++move) {
    send_recv<float>(comm, chunk(comm.rank() + move), comm.left(),
                     chunk(comm.rank() + 1 + move), comm.right());
  }
}

}  // namespace dist::exercise
