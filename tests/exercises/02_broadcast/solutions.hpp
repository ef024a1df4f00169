// Solutions to lesson 2's exercises, except edited copies of others (see solutions.txt).
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"
#include "02_broadcast/flat.hpp"

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

// == tree_reduce/reference
// The rounds of binomial_tree.hpp in reverse.
//   size 7     distance 4   4 -> 0   5 -> 1   6 -> 2
//              distance 2   2 -> 0   3 -> 1
//              distance 1   1 -> 0
inline void tree_reduce_reference(const Communicator& comm, std::span<const float> data,
                                  std::span<float> sum, int root) {
  const int size = comm.size();
  const int vrank = (comm.rank() - root + size) % size;
  const auto rank_of = [&](int v) { return (v + root) % size; };
  std::ranges::copy(data, sum.begin());
  std::vector<float> coming(sum.size());
  // Start from the largest power of two below size; with one rank, there is no such power.
  for (auto d = static_cast<int>(std::bit_floor(static_cast<unsigned>(size - 1))); d > 0;
       d /= 2) {
    if (vrank >= d) return send<float>(comm, sum, rank_of(vrank - d));
    if (vrank + d >= size) continue;
    recv<float>(comm, coming, rank_of(vrank + d));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += coming[i];
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
