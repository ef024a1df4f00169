// What this file adds: a sum over virtual ranks that rounds the same way on any number of
// processes.
// Builds on: 01, send_recv; virtual_ranks.
//
// Float addition is not associative: (a + b) + c and a + (b + c) can differ in the last bit.
// The ranks' numbers therefore determine which pairs are added (lesson 3's recursive doubling
// adds neighbours first, so its pairs on 2 processes differ from those on 4):
//
//   rank        0   4   2   6   1   5   3   7
//               +---+   +---+   +---+   +---+      distance 4
//                 +-------+       +-------+        distance 2
//                     +---------------+            distance 1
//
// In this order (VirtualRanks::local), each of 1, 2, 4 or 8 processes holds neighbours that
// form a whole subtree. It adds up its subtree without messages; the levels above need them.
#pragma once

#include "01_send_recv/send_recv.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <vector>

namespace dist {

// Adding up a subtree whose leaves arrive one by one needs only a few slots: leaf i goes to
// slot_of(i), and then add_complete_pairs calls add(into, from) for each pair of slots that is
// complete. After the last leaf, the sum is in slot 0. The number of leaves must be a power of
// two.
//
//   leaf        0     1     2     3
//   slot 0      0    0+1   0+1   0+1+2+3
//   slot 1            1     2    2+3
//   slot 2                        3
inline std::size_t slot_of(std::size_t leaf) {
  return static_cast<std::size_t>(std::popcount(leaf));
}
inline std::size_t slots_for(std::size_t leaves) {
  return static_cast<std::size_t>(std::bit_width(leaves));
}
template <class Add>
void add_complete_pairs(std::size_t leaf, Add add) {
  // Leaf 3 is the second of a pair of leaves, and that pair is the second of a pair of pairs.
  // The number of additions is the number of trailing ones in the leaf's binary representation.
  for (std::size_t slot = slot_of(leaf); leaf % 2 == 1; leaf /= 2, --slot) add(slot - 1, slot);
}

// Called on all ranks of `comm`; their number must be a power of two. Each rank passes the sum
// of its subtree in `data`. Afterwards, `data` is the sum over all ranks, bitwise equal on all
// of them.
template <MpiScalar T>
void tree_sum_over_processes(const Communicator& comm, std::span<T> data) {
  // Each piece goes up the whole tree before the next one starts, so it stays in the cache.
  constexpr std::size_t kPiece = 1 << 16;
  std::vector<T> arrived(std::min(data.size(), kPiece));
  for (; !data.empty(); data = data.subspan(std::min(kPiece, data.size()))) {
    const std::span<T> piece = data.first(std::min(kPiece, data.size()));
    for (int distance = comm.size() / 2; distance > 0; distance /= 2) {
      const int partner = comm.rank() ^ distance;
      send_recv<T>(comm, piece, partner, std::span(arrived).first(piece.size()), partner);
      // One partner computes a + b and the other b + a, which are bitwise equal.
      for (std::size_t i = 0; i < piece.size(); ++i) piece[i] += arrived[i];
    }
  }
}

}  // namespace dist
