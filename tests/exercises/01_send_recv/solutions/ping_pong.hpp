// Right, differently written.
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

// Right: a clock around every trip, MPI's own; the trips are added up.
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

// Right: started and waited for, the answer's receive posted before the message leaves.
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
