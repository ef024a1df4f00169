// What this file adds: a broadcast in which every rank that has the data helps to spread it.
// Builds on: 01, send and recv.
// Look at: how each rank knows, from its number alone, when to receive and where to send.
#pragma once

#include "01_send_recv/send_recv.hpp"

#include <bit>
#include <span>

namespace dist {

// ceil(log2 size).
inline int tree_rounds(int size) {
  return size < 2 ? 0 : static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1)));
}

// [2] Sends the root's `data` to all ranks. Called on all ranks with the same root and length.
// Cost: tree_rounds(size) rounds, because the number of ranks that have the data doubles in
// each round.
//
// Seats (also called relative ranks) are counted from the root: seat 0 is the root, seat 1 the
// rank after it, and so on. In the round with distance d, seats 0 to d - 1 have the data, and
// seat s sends to seat s + d:
//
//   size 7     distance 1   0 -> 1
//              distance 2   0 -> 2   1 -> 3
//              distance 4   0 -> 4   1 -> 5   2 -> 6   (3 -> 7: there is no seat 7)
template <MpiScalar T>
void broadcast_tree(const Communicator& comm, std::span<T> data, int root) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  const auto rank_of = [&](int s) { return (s + root) % size; };
  for (int distance = 1; distance < size; distance *= 2) {
    if (seat < distance) {
      if (seat + distance < size) send<T>(comm, data, rank_of(seat + distance));
    } else if (seat < 2 * distance) {
      recv<T>(comm, data, rank_of(seat - distance));
    }
  }
}

}  // namespace dist
