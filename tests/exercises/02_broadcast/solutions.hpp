// Solutions to lesson 2's exercises, except edited copies of others (see solutions.txt).
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"
#include "02_broadcast/flat.hpp"

#include <mpi.h>

#include <algorithm>
#include <span>
#include <vector>

namespace dist::exercise {

// == tree_broadcast/reference
inline void tree_broadcast_reference(const Communicator& comm, std::span<float> data,
                                     int root) {
  const int size = comm.size();
  const int vrank = (comm.rank() - root + size) % size;
  const auto rank_of = [&](int v) { return (v + root) % size; };
  for (int d = 1; d < size; d *= 2) {
    if (vrank < d) {
      if (vrank + d < size) send<float>(comm, data, rank_of(vrank + d));
    } else if (vrank < 2 * d) {
      recv<float>(comm, data, rank_of(vrank - d));
    }
  }
}

// == scatter_all_gather/reference
// The root sends each rank its chunk, and then the chunks travel leftward around
// the ring.
inline void scatter_all_gather_reference(const Communicator& comm, std::span<float> data,
                                         int root) {
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
