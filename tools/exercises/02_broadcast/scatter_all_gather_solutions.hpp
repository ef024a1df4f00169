// Known solutions of the exercise scatter_all_gather: the reference, and others, right and
// wrong.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"
#include "common/check.hpp"

#include <mpi.h>

#include <cstddef>
#include <span>
#include <vector>

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

// == nonblocking | done
// Starts its sends, and leaves out empty chunks.
inline void scatter_all_gather_nonblocking(const Communicator& comm, std::span<float> data,
                                           int root) {
  const int rank = comm.rank();
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  std::vector<Request> sends;
  if (rank != root && !chunk(rank).empty()) recv<float>(comm, chunk(rank), root);
  for (int dest = 0; rank == root && dest < comm.size(); ++dest) {
    if (dest != root && !chunk(dest).empty())
      sends.push_back(isend<float>(comm, chunk(dest), dest));
  }
  for (int step = 0; step < comm.size() - 1; ++step) {
    if (!chunk(rank + step).empty())
      sends.push_back(isend<float>(comm, chunk(rank + step), comm.left()));
    if (!chunk(rank + step + 1).empty())
      recv<float>(comm, chunk(rank + step + 1), comm.right());
  }
}

// == by-vranks | done
// Assigns the chunks by vranks, counted from the root.
inline void scatter_all_gather_by_vranks(const Communicator& comm, std::span<float> data,
                                         int root) {
  const int rank = comm.rank();
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index - root));
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

// == rightward | leftward | send to comm.left() and receive from comm.right()
// Sends around the ring to the right.
inline void scatter_all_gather_rightward(const Communicator& comm, std::span<float> data,
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
    send_recv<float>(comm, chunk(rank - step), comm.right(), chunk(rank - step - 1),
                     comm.left());
  }
}

// == one-step-short | root-0 | it sends chunk r + s
// The ring ends one step early.
inline void scatter_all_gather_one_step_short(const Communicator& comm, std::span<float> data,
                                              int root) {
  const int rank = comm.rank();
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  if (rank != root) recv<float>(comm, chunk(rank), root);
  for (int dest = 0; rank == root && dest < comm.size(); ++dest) {
    if (dest != root) send<float>(comm, chunk(dest), dest);
  }
  for (int step = 0; step < comm.size() - 2; ++step) {
    send_recv<float>(comm, chunk(rank + step), comm.left(), chunk(rank + step + 1),
                     comm.right());
  }
}

// == one-step-too-many | messages | after which every rank has every chunk
// The ring ends one step late.
inline void scatter_all_gather_one_step_too_many(const Communicator& comm,
                                                 std::span<float> data, int root) {
  const int rank = comm.rank();
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  if (rank != root) recv<float>(comm, chunk(rank), root);
  for (int dest = 0; rank == root && dest < comm.size(); ++dest) {
    if (dest != root) send<float>(comm, chunk(dest), dest);
  }
  for (int step = 0; step < comm.size(); ++step) {
    send_recv<float>(comm, chunk(rank + step), comm.left(), chunk(rank + step + 1),
                     comm.right());
  }
}

// == root-0-deals | values | the root is not always rank 0
// Rank 0 sends the chunks, whichever rank is the root.
inline void scatter_all_gather_root_0_deals(const Communicator& comm, std::span<float> data,
                                            int root) {
  root = 0;
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

// == whole-tensor-in-scatter | bytes | send each rank its own chunk
// Sends the whole tensor to every rank.
inline void scatter_all_gather_whole_tensor_in_scatter(const Communicator& comm,
                                                       std::span<float> data, int root) {
  const int rank = comm.rank();
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  if (rank != root) recv<float>(comm, data, root);
  for (int dest = 0; rank == root && dest < comm.size(); ++dest) {
    if (dest != root) send<float>(comm, data, dest);
  }
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, chunk(rank + step), comm.left(), chunk(rank + step + 1),
                     comm.right());
  }
}

// == blocking-ring | large | Use send_recv, which sends and receives at the same time
// Sends first, then receives.
inline void scatter_all_gather_blocking_ring(const Communicator& comm, std::span<float> data,
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
    send<float>(comm, chunk(rank + step), comm.left());
    recv<float>(comm, chunk(rank + step + 1), comm.right());
  }
}

// == no-remainder | values | instead of computing with length / N
// Computes with length / N and forgets the remainder.
inline void scatter_all_gather_no_remainder(const Communicator& comm, std::span<float> data,
                                            int root) {
  const auto n = static_cast<std::size_t>(comm.size());
  data = data.first(data.size() / n * n);
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

// == equal-chunks | guard-zones | call chunk_range for each chunk that you send or receive
// Assumes that all chunks are as long as the longest.
inline void scatter_all_gather_equal_chunks(const Communicator& comm, std::span<float> data,
                                            int root) {
  const auto n = static_cast<std::size_t>(comm.size());
  data = std::span(data.data(), (data.size() + n - 1) / n * n);
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

// == root-stays-out | root-0 | In the ring, every rank, also the root
// The root already has everything and skips the ring.
inline void scatter_all_gather_root_stays_out(const Communicator& comm, std::span<float> data,
                                              int root) {
  const int rank = comm.rank();
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  if (rank != root) recv<float>(comm, chunk(rank), root);
  for (int dest = 0; rank == root && dest < comm.size(); ++dest) {
    if (dest != root) send<float>(comm, chunk(dest), dest);
  }
  for (int step = 0; rank != root && step < comm.size() - 1; ++step) {
    send_recv<float>(comm, chunk(rank + step), comm.left(), chunk(rank + step + 1),
                     comm.right());
  }
}

// == mpi | no-collective | single messages are enough
// Calls MPI_Bcast.
inline void scatter_all_gather_mpi(const Communicator& comm, std::span<float> data, int root) {
  MPI_CHECK(MPI_Bcast(data.data(), mpi_count(data.size()), MPI_FLOAT, root, comm.get()));
}

// == no-wait | waits | wait() for each before you return
// The root does not wait for the sends of the scatter.
inline void scatter_all_gather_no_wait(const Communicator& comm, std::span<float> data,
                                       int root) {
  const int rank = comm.rank();
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  if (rank != root) recv<float>(comm, chunk(rank), root);
  for (int dest = 0; rank == root && dest < comm.size(); ++dest) {
    if (dest == root) continue;
    const std::span<float> out = chunk(dest);
    MPI_Request sending = MPI_REQUEST_NULL;
    MPI_CHECK(
        MPI_Isend(out.data(), mpi_count(out.size()), MPI_FLOAT, dest, 0, comm.get(), &sending));
  }
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, chunk(rank + step), comm.left(), chunk(rank + step + 1),
                     comm.right());
  }
}

// == own-chunks | bytes | send each rank its own chunk
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
