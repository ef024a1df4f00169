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
// A vrank is a rank counted from the root: vrank 0 is the root, vrank 1 the rank after it, and
// so on. In the round with distance d, vranks 0 to d - 1 have the data, and vrank v sends to
// vrank v + d:
//
//   size 7     distance 1   0 -> 1
//              distance 2   0 -> 2   1 -> 3
//              distance 4   0 -> 4   1 -> 5   2 -> 6   (3 -> 7: there is no vrank 7)
template <MpiScalar T>
void broadcast_tree(const Communicator& comm, std::span<T> data, int root) {
  const int size = comm.size();
  const int vrank = (comm.rank() - root + size) % size;
  const auto rank_of = [&](int v) { return (v + root) % size; };
  for (int distance = 1; distance < size; distance *= 2) {
    if (vrank < distance) {
      if (vrank + distance < size) send<T>(comm, data, rank_of(vrank + distance));
    } else if (vrank < 2 * distance) {
      recv<T>(comm, data, rank_of(vrank - distance));
    }
  }
}

}  // namespace dist
