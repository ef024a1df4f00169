// What this file adds: an all-reduce in only log2(size) exchanges, for small tensors.
// Builds on: 01, send_recv.
// Look at: PowerOfTwo, which handles numbers of ranks that are not a power of two.
#pragma once

#include "03_all_reduce/reduce_op.hpp"

#include <bit>
#include <span>
#include <vector>

namespace dist {

// The number of participants must be a power of two. Rounding the number of ranks down to a
// power of two gives that number. Each surplus rank takes part through a neighbour. With 7
// ranks the surplus is 3: ranks 0, 2 and 4 send their numbers to 1, 3 and 5 and wait for the
// result. Ranks 1, 3, 5 and 6 have the new ranks (MPICH's `newrank`) 0, 1, 2 and 3.
struct PowerOfTwo {
  int count, surplus;

  explicit PowerOfTwo(int ranks)
      : count(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))),
        surplus(ranks - count) {}
  bool paired(int rank) const { return rank < 2 * surplus; }
  bool waits(int rank) const { return paired(rank) && rank % 2 == 0; }
  int newrank_of(int rank) const { return paired(rank) ? rank / 2 : rank - surplus; }
  int rank_of(int r) const { return r < surplus ? 2 * r + 1 : r + surplus; }
};

// Adds the surplus ranks' numbers to their neighbours' numbers, calls exchange(group) on the
// others, and sends the resulting `data` to the surplus ranks. `spare` is as long as `data`.
template <MpiScalar T, class Exchange>
void on_power_of_two(const Communicator& comm, std::span<T> data, std::span<T> spare,
                     ReduceOp op, Exchange exchange) {
  const PowerOfTwo group(comm.size());
  if (group.waits(comm.rank())) {
    send<T>(comm, data, comm.rank() + 1);
    recv<T>(comm, data, comm.rank() + 1);
    return;
  }
  if (group.paired(comm.rank())) {
    recv<T>(comm, spare, comm.rank() - 1);
    accumulate<T>(op, data, spare);
  }
  exchange(group);
  if (group.paired(comm.rank())) send<T>(comm, data, comm.rank() - 1);
}

// [5] Recursive doubling. Called on all ranks with the same length and op; afterwards all ranks
// hold the same bits (see accumulate). Cost: log2(size) exchanges of the whole tensor: the
// fewest messages possible, but more bytes than the ring sends. Thakur, Rabenseifner and Gropp,
// "Optimization of Collective Communication Operations in MPICH" (2005).
//
// In the round with distance d, new ranks r and r xor d exchange their tensors, and both add:
//
//   size 4     distance 1   0 <-> 1   2 <-> 3     every rank holds the sum of a pair
//              distance 2   0 <-> 2   1 <-> 3     every rank holds the sum of all four
template <MpiScalar T>
void all_reduce_recursive_doubling(const Communicator& comm, std::span<T> data, ReduceOp op) {
  std::vector<T> arrived(data.size());
  on_power_of_two<T>(comm, data, arrived, op, [&](const PowerOfTwo& group) {
    const int newrank = group.newrank_of(comm.rank());
    for (int distance = 1; distance < group.count; distance *= 2) {
      const int partner = group.rank_of(newrank ^ distance);
      send_recv<T>(comm, data, partner, arrived, partner);
      accumulate<T>(op, data, arrived);
    }
    finish(op, data, comm.size());
  });
}

}  // namespace dist
