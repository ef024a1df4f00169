// What this file adds: an all-reduce in only log2(size) exchanges, for small tensors.
// Builds on: 01, send_recv.
// Look at: Seats, which handles numbers of ranks that are not a power of two.
#pragma once

#include "03_all_reduce/reduce_op.hpp"

#include <bit>
#include <span>
#include <vector>

namespace dist {

// The number of participants must be a power of two. Rounding the number of ranks down to a
// power of two gives the number of seats. Each surplus rank takes part through a neighbour.
// With 7 ranks the surplus is 3: ranks 0, 2 and 4 send their numbers to 1, 3 and 5 and wait for
// the result. Ranks 1, 3, 5 and 6 take seats 0, 1, 2 and 3.
struct Seats {
  int count;
  int beyond;

  explicit Seats(int ranks)
      : count(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))),
        beyond(ranks - count) {}
  bool paired(int rank) const { return rank < 2 * beyond; }
  bool waits(int rank) const { return paired(rank) && rank % 2 == 0; }
  int seat_of(int rank) const { return paired(rank) ? rank / 2 : rank - beyond; }
  int rank_of(int seat) const { return seat < beyond ? 2 * seat + 1 : seat + beyond; }
};

// Adds the numbers of the ranks without a seat to their neighbours' numbers, calls
// exchange(seats) on the ranks with a seat, and sends the resulting `data` to the ranks without
// a seat. `spare` is as long as `data`.
template <MpiScalar T, class Exchange>
void on_seats(const Communicator& comm, std::span<T> data, std::span<T> spare, ReduceOp op,
              Exchange exchange) {
  const Seats seats(comm.size());
  if (seats.waits(comm.rank())) {
    send<T>(comm, data, comm.rank() + 1);
    recv<T>(comm, data, comm.rank() + 1);
    return;
  }
  if (seats.paired(comm.rank())) {
    recv<T>(comm, spare, comm.rank() - 1);
    accumulate<T>(op, data, spare);
  }
  exchange(seats);
  if (seats.paired(comm.rank())) send<T>(comm, data, comm.rank() - 1);
}

// [5] Recursive doubling. Called on all ranks with the same length and op; afterwards all ranks
// hold the same bits (see accumulate). Cost: log2(size) exchanges of the whole tensor: the
// fewest messages possible, but more bytes than the ring sends. Thakur, Rabenseifner and Gropp,
// "Optimization of Collective Communication Operations in MPICH" (2005).
//
// In the round with distance d, seats s and s xor d exchange their tensors, and both add:
//
//   size 4     distance 1   0 <-> 1   2 <-> 3     every rank holds the sum of a pair
//              distance 2   0 <-> 2   1 <-> 3     every rank holds the sum of all four
template <MpiScalar T>
void all_reduce_recursive_doubling(const Communicator& comm, std::span<T> data, ReduceOp op) {
  std::vector<T> arrived(data.size());
  on_seats<T>(comm, data, arrived, op, [&](const Seats& seats) {
    const int seat = seats.seat_of(comm.rank());
    for (int distance = 1; distance < seats.count; distance *= 2) {
      const int partner = seats.rank_of(seat ^ distance);
      send_recv<T>(comm, data, partner, arrived, partner);
      accumulate<T>(op, data, arrived);
    }
    finish(op, data, comm.size());
  });
}

}  // namespace dist
