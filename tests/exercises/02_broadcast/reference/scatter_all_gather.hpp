// The reference: the root sends each rank its chunk, and then the chunks travel leftward around
// the ring.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"

#include <span>

namespace dist::exercise {

inline void scatter_all_gather(const Communicator& comm, std::span<float> data, int root) {
  const int rank = comm.rank();
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  if (rank != root) recv<float>(comm, chunk(rank), root);
  for (int dest = 0; rank == root && dest < comm.size(); ++dest) {
    if (dest != root) send<float>(comm, chunk(dest), dest);
  }
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, chunk(rank + step), comm.left(), chunk(rank + step + 1),
                     comm.right());
  }
}

}  // namespace dist::exercise
