// Right, but written differently.
#pragma once

#include "01_send_recv/send_recv.hpp"

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

namespace dist::exercise {

inline bool plays(const Communicator& comm) {
  return comm.size() > 1 && comm.rank() < 2;
}

inline void there_and_back(const Communicator& comm, std::span<char> data, int peer) {
  if (comm.rank() < peer) {
    send<char>(comm, data, peer);
    recv<char>(comm, data, peer);
  } else {
    recv<char>(comm, data, peer);
    send<char>(comm, data, peer);
  }
}

// Right: times every round trip with MPI's clock and adds up the times.
inline double sum_of_trips(const Communicator& comm, std::size_t bytes, int repeats) {
  if (!plays(comm)) return 0;
  std::vector<char> data(bytes);
  double seconds = 0;
  for (int i = 0; i < repeats; ++i) {
    const double begin = MPI_Wtime();
    there_and_back(comm, data, 1 - comm.rank());
    seconds += MPI_Wtime() - begin;
  }
  return comm.rank() == 0 ? seconds / repeats / 2 : 0;
}

// Right: uses non-blocking calls, and rank 0 posts the receive for the answer before it sends.
inline double nonblocking(const Communicator& comm, std::size_t bytes, int repeats) {
  if (!plays(comm)) return 0;
  std::vector<char> out(bytes);
  std::vector<char> in(bytes);
  const int peer = 1 - comm.rank();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    Request comes = irecv<char>(comm, in, peer);
    if (comm.rank() == 1) comes.wait();
    isend<char>(comm, out, peer).wait();
    if (comm.rank() == 0) comes.wait();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return comm.rank() == 0 ? seconds.count() / (2.0 * repeats) : 0;
}

}  // namespace dist::exercise
