// What this file adds: the all-reduce for small tensors, in log2(size) exchanges.
// Builds on: 01, send_recv.
// Look at: what happens when the number of ranks is no power of two.
#pragma once

#include "03_all_reduce/reduce_op.hpp"

#include <bit>
#include <span>
#include <vector>

namespace dist {

// Called on all ranks with the same length and op; afterwards `data` is the same on all, to the
// bit (see accumulate). Cost: log2(size) exchanges of the whole tensor: the fewest messages
// that are possible, but more bytes than the ring's. Thakur, Rabenseifner and Gropp,
// "Optimization of Collective Communication Operations in MPICH" (2005).
//
// In the round with distance d, rank r exchanges with rank r xor d, and both add:
//
//   size 4     distance 1   0 <-> 1   2 <-> 3     everybody holds the sum of a pair
//              distance 2   0 <-> 2   1 <-> 3     ... of two pairs, which is all
//
// With 7 ranks, 3 are beyond the largest power of two. Ranks 0, 2, 4 hand their numbers to 1,
// 3, 5 and wait; 1, 3, 5 and 6 are then four seats 0, 1, 2, 3; in the end the waiting get the
// result.
template <MpiScalar T>
void all_reduce_recursive_doubling(const Communicator& comm, std::span<T> data, ReduceOp op) {
  const int seats = static_cast<int>(std::bit_floor(static_cast<unsigned>(comm.size())));
  const int beyond = comm.size() - seats;
  const bool paired = comm.rank() < 2 * beyond;
  const bool waits = paired && comm.rank() % 2 == 0;
  if (waits) {
    send<T>(comm, data, comm.rank() + 1);
    recv<T>(comm, data, comm.rank() + 1);
    return;
  }
  std::vector<T> arrived(data.size());
  if (paired) {
    recv<T>(comm, arrived, comm.rank() - 1);
    accumulate<T>(op, data, arrived);
  }
  const int seat = paired ? comm.rank() / 2 : comm.rank() - beyond;
  const auto rank_of = [&](int s) { return s < beyond ? 2 * s + 1 : s + beyond; };
  for (int distance = 1; distance < seats; distance *= 2) {
    const int partner = rank_of(seat ^ distance);
    send_recv<T>(comm, data, partner, arrived, partner);
    accumulate<T>(op, data, arrived);
  }
  finish(op, data, comm.size());
  if (paired) send<T>(comm, data, comm.rank() - 1);
}

}  // namespace dist
