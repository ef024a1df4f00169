// Known solutions of the exercise scatter_all_gather: the reference, and others, right and
// wrong. More are in scatter_all_gather_changes.toml.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"
#include "common/check.hpp"

#include <mpi.h>

#include <cstddef>
#include <span>

namespace dist::exercise {

// == reference | done
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

// == mpi | no-collective | single messages are enough
// Calls MPI_Bcast.
inline void scatter_all_gather_mpi(const Communicator& comm, std::span<float> data, int root) {
  MPI_CHECK(MPI_Bcast(data.data(), mpi_count(data.size()), MPI_FLOAT, root, comm.get()));
}

// == own-chunks | bytes | not chunk_range's
// Right numbers with chunks of its own: the last one gets all of the remainder.
inline void scatter_all_gather_own_chunks(const Communicator& comm, std::span<float> data,
                                          int root) {
  const auto n = static_cast<std::size_t>(comm.size());
  const auto chunk = [&](int c) {
    const std::size_t each = data.size() / n;
    const auto i = static_cast<std::size_t>((c + 2 * comm.size()) % comm.size());
    return data.subspan(i * each, i + 1 == n ? data.size() - i * each : each);
  };
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank == root) continue;
    if (comm.rank() == root) send<float>(comm, chunk(rank), rank);
    if (comm.rank() == rank) recv<float>(comm, chunk(rank), root);
  }
  for (int step = 0; step + 1 < comm.size(); ++step) {
    const int mine = comm.rank() + step;
    send_recv<float>(comm, chunk(mine), comm.left(), chunk(mine + 1), comm.right());
  }
}

}  // namespace dist::exercise
