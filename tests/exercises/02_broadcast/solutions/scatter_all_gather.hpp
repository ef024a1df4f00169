// Right and wrong chunked broadcasts that are not edited copies of the reference.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/scatter_all_gather.hpp"

#include <span>
#include <vector>

namespace dist::exercise {

inline std::span<float> chunk(const Communicator& comm, std::span<float> data, int index) {
  return window(data, chunk_range(data.size(), comm.size(), index));
}

// The leftward ring; each rank first sends chunk rank + first. It is right if `first` is 0.
inline void gather_from(const Communicator& comm, std::span<float> data, int first, int steps) {
  for (int step = 0; step < steps; ++step) {
    send_recv<float>(comm, chunk(comm, data, comm.rank() + first + step), comm.left(),
                     chunk(comm, data, comm.rank() + first + step + 1), comm.right());
  }
}

// Right: uses non-blocking calls and does not send empty chunks.
inline void nonblocking(const Communicator& comm, std::span<float> data, int root) {
  std::vector<Request> sends;
  for (int step = 1; comm.rank() == root && step < comm.size(); ++step) {
    const int dest = (root + step) % comm.size();
    const std::span<float> out = chunk(comm, data, dest);
    if (!out.empty()) sends.push_back(isend<float>(comm, out, dest, 1));
  }
  int mine = comm.rank();
  const std::span<float> own = chunk(comm, data, mine);
  if (comm.rank() != root && !own.empty()) recv<float>(comm, own, root, 1);
  for (int step = 1; step < comm.size(); ++step, ++mine) {
    const std::span<float> in = chunk(comm, data, mine + 1);
    const std::span<float> out = chunk(comm, data, mine);
    if (!out.empty()) sends.push_back(isend<float>(comm, out, comm.left(), 2));
    if (!in.empty()) recv<float>(comm, in, comm.right(), 2);
  }
  for (Request& request : sends) request.wait();
}

// Right: seat s, counted from the root, gets chunk s.
inline void by_seats(const Communicator& comm, std::span<float> data, int root) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  if (seat > 0) recv<float>(comm, chunk(comm, data, seat), root);
  for (int other = 1; seat == 0 && other < size; ++other) {
    send<float>(comm, chunk(comm, data, other), (root + other) % size);
  }
  gather_from(comm, data, seat - comm.rank(), size - 1);
}

// The lesson's own function: a tree, followed by a ring to the right.
inline void lessons_own(const Communicator& comm, std::span<float> data, int root) {
  broadcast_scatter_all_gather<float>(comm, data, root);
}

inline void everything_from_root(const Communicator& comm, std::span<float> data, int root) {
  for (int c = 0; c < comm.size(); ++c) {
    if (comm.rank() != root) recv<float>(comm, chunk(comm, data, c), root);
    for (int rank = 0; comm.rank() == root && rank < comm.size(); ++rank) {
      if (rank != root) send<float>(comm, chunk(comm, data, c), rank);
    }
  }
}

}  // namespace dist::exercise
