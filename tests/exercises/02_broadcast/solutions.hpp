// Solutions to lesson 2's exercises, except edited copies of others (see solutions.txt).
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/binomial_tree.hpp"
#include "02_broadcast/chunks.hpp"
#include "02_broadcast/flat.hpp"
#include "02_broadcast/more_algorithms/scatter_all_gather.hpp"

#include <mpi.h>

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

namespace dist::exercise {

// == tree_broadcast/reference
inline void tree_broadcast_reference(const Communicator& comm, std::span<float> data,
                                     int root) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  const auto rank_of = [&](int s) { return (s + root) % size; };
  for (int d = 1; d < size; d *= 2) {
    if (seat < d) {
      if (seat + d < size) send<float>(comm, data, rank_of(seat + d));
    } else if (seat < 2 * d) {
      recv<float>(comm, data, rank_of(seat - d));
    }
  }
}

// == helpers
// Seats: the ranks, counted from the root.
struct Seats {
  Seats(const Communicator& comm, int from)
      : size(comm.size()), root(from), mine((comm.rank() - from + size) % size) {}
  int rank_of(int seat) const { return (seat + root) % size; }
  int size;
  int root;
  int mine;
};

// == tree_broadcast/by-lowest-bit
// Right: finds its sender by clearing the lowest set bit of its seat number. Then sends to the
// seats that it finds by setting a single lower bit, the farthest first.
inline void tree_broadcast_by_lowest_bit(const Communicator& comm, std::span<float> data,
                                         int root) {
  const Seats seats(comm, root);
  int bit = 1;
  while (bit < seats.size && (seats.mine & bit) == 0) bit *= 2;
  if (seats.mine != 0) recv<float>(comm, data, seats.rank_of(seats.mine - bit));
  for (bit /= 2; bit > 0; bit /= 2) {
    if (seats.mine + bit < seats.size) {
      send<float>(comm, data, seats.rank_of(seats.mine + bit));
    }
  }
}

// == helpers
// Right: a rank that has the data for a range of seats sends it to the first seat of the upper
// half.
inline void halve(const Communicator& comm, std::span<float> data, const Seats& seats,
                  int begin, int end) {
  if (end - begin < 2) return;
  const int middle = begin + (end - begin + 1) / 2;
  if (seats.mine == begin) send<float>(comm, data, seats.rank_of(middle));
  if (seats.mine == middle) recv<float>(comm, data, seats.rank_of(begin));
  const bool low = seats.mine < middle;
  halve(comm, data, seats, low ? begin : middle, low ? middle : end);
}

// == tree_broadcast/nonblocking
inline void tree_broadcast_nonblocking(const Communicator& comm, std::span<float> data,
                                       int root) {
  const Seats seats(comm, root);
  std::vector<Request> sends;
  for (int d = 1; d < seats.size; d *= 2) {
    if (seats.mine >= d && seats.mine < 2 * d) {
      recv<float>(comm, data, seats.rank_of(seats.mine - d));
    } else if (seats.mine < d && seats.mine + d < seats.size) {
      sends.push_back(isend<float>(comm, data, seats.rank_of(seats.mine + d)));
    }
  }
  for (Request& request : sends) request.wait();
}

// == tree_reduce/reference
// The rounds of binomial_tree.hpp in reverse.
//   size 7     distance 4   4 -> 0   5 -> 1   6 -> 2
//              distance 2   2 -> 0   3 -> 1
//              distance 1   1 -> 0
inline void tree_reduce_reference(const Communicator& comm, std::span<const float> data,
                                  std::span<float> sum, int root) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  const auto rank_of = [&](int s) { return (s + root) % size; };
  std::ranges::copy(data, sum.begin());
  std::vector<float> coming(sum.size());
  // Start from the largest power of two below size; with one rank, there is no such power.
  for (auto d = static_cast<int>(std::bit_floor(static_cast<unsigned>(size - 1))); d > 0;
       d /= 2) {
    if (seat >= d) return send<float>(comm, sum, rank_of(seat - d));
    if (seat + d >= size) continue;
    recv<float>(comm, coming, rank_of(seat + d));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += coming[i];
  }
}

// == helpers
inline void receive_and_add(const Communicator& comm, std::span<float> sum, int source) {
  std::vector<float> coming(sum.size());
  recv<float>(comm, coming, source);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += coming[i];
}

// == tree_reduce/farthest-first
// The same tree, but each rank receives from the farthest seat first. That seat's part takes
// longest, so the others have to wait for it.
inline void tree_reduce_farthest_first(const Communicator& comm, std::span<const float> data,
                                       std::span<float> sum, int root) {
  const Seats seats(comm, root);
  std::ranges::copy(data, sum.begin());
  int bit = 1;
  while (bit < seats.size && (seats.mine & bit) == 0) bit *= 2;
  const int receiver = seats.rank_of(seats.mine - bit);
  for (bit /= 2; bit > 0; bit /= 2) {
    if (seats.mine + bit >= seats.size) continue;
    receive_and_add(comm, sum, seats.rank_of(seats.mine + bit));
  }
  if (seats.mine > 0) send<float>(comm, sum, receiver);
}

// Right: collects the sum over the seats `begin` to `end` - 1 on seat `begin`.
inline void collect(const Communicator& comm, std::span<float> sum, const Seats& seats,
                    int begin, int end) {
  if (end - begin < 2) return;
  const int middle = begin + (end - begin + 1) / 2;
  const bool low = seats.mine < middle;
  collect(comm, sum, seats, low ? begin : middle, low ? middle : end);
  if (seats.mine == begin) receive_and_add(comm, sum, seats.rank_of(middle));
  if (seats.mine == middle) send<float>(comm, sum, seats.rank_of(begin));
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

// == helpers
inline std::span<float> chunk(const Communicator& comm, std::span<float> data, int index) {
  return window(data, chunk_range(data.size(), comm.size(), index));
}

// == scatter_all_gather/nonblocking
inline void scatter_all_gather_nonblocking(const Communicator& comm, std::span<float> data,
                                           int root) {
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

// == scatter_all_gather/by-seats
inline void scatter_all_gather_by_seats(const Communicator& comm, std::span<float> data,
                                        int root) {
  const Seats seats(comm, root);
  if (seats.mine > 0) recv<float>(comm, chunk(comm, data, seats.mine), root);
  for (int seat = 1; seats.mine == 0 && seat < seats.size; ++seat) {
    send<float>(comm, chunk(comm, data, seat), seats.rank_of(seat));
  }
  for (int step = 0, mine = seats.mine; step < seats.size - 1; ++step, ++mine) {
    send_recv<float>(comm, chunk(comm, data, mine), comm.left(), chunk(comm, data, mine + 1),
                     comm.right());
  }
}

// == scatter_all_gather/everything-from-root
inline void scatter_all_gather_everything_from_root(const Communicator& comm,
                                                    std::span<float> data, int root) {
  for (int c = 0; c < comm.size(); ++c) {
    if (comm.rank() != root) recv<float>(comm, chunk(comm, data, c), root);
    for (int rank = 0; comm.rank() == root && rank < comm.size(); ++rank) {
      if (rank != root) send<float>(comm, chunk(comm, data, c), rank);
    }
  }
}

}  // namespace dist::exercise
