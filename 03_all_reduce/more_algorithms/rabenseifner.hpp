// What this file adds: an all-reduce that sends as many bytes as the ring, but in 2 log2(size)
// messages instead of 2 (size - 1). It has the ring's two parts, reduce-scatter and all-gather,
// but each rank has the same partners as in recursive doubling.
// Builds on: recursive_doubling's PowerOfTwo; the ring's chunk_range.
// Look at: the two loops. In each round of the first, a rank gives away the half of its range
// that its partner will finish. The second has the same partners in reverse order.
// Source: Rabenseifner, "Optimization of Collective Reduction Operations" (2004).
#pragma once

#include "03_all_reduce/more_algorithms/recursive_doubling.hpp"
#include "03_all_reduce/ring.hpp"

#include <span>
#include <vector>

namespace dist {

// [8] Rabenseifner. Called on all ranks with the same length and op; afterwards all ranks hold
// the same bits, because each chunk is finished on one rank and then copied.
//
// The ranges of chunks for four ranks, seen from rank 1:
//
//   distance 2   partner 3   has 0 1 2 3   gives 2 3, receives and adds its 0 1
//   distance 1   partner 0   has 0 1       gives 0,   receives and adds its 1    (finished)
//   distance 1   partner 0   has 1         gives 1,   receives 0
//   distance 2   partner 3   has 0 1       gives 0 1, receives 2 3
template <MpiScalar T>
void all_reduce_rabenseifner(const Communicator& comm, std::span<T> data, ReduceOp op) {
  std::vector<T> spare_memory(data.size());
  const std::span<T> spare(spare_memory);
  on_power_of_two<T>(comm, data, spare, op, [&](const PowerOfTwo& group) {
    const int newrank = group.newrank_of(comm.rank());
    // Chunks first .. first + count - 1 as one range of elements.
    const auto chunks = [&](int first, int count) {
      const std::size_t begin = chunk_range(data.size(), group.count, first).begin;
      const ChunkRange last = chunk_range(data.size(), group.count, first + count - 1);
      return ChunkRange{begin, last.begin + last.count - begin};
    };
    // Clearing the low bits of a new rank (rounding it down to a multiple of `distance`)
    // gives the start of its range.
    const auto range_of = [&](int s, int distance) {
      return chunks(s & ~(distance - 1), distance);
    };
    for (int distance = group.count / 2; distance >= 1; distance /= 2) {
      const int partner = newrank ^ distance;
      const ChunkRange mine = range_of(newrank, distance);
      send_recv<T>(comm, window(data, range_of(partner, distance)), group.rank_of(partner),
                   spare.first(mine.count), group.rank_of(partner));
      accumulate<T>(op, window(data, mine), spare.first(mine.count));
    }
    finish(op, window(data, range_of(newrank, 1)), comm.size());
    for (int distance = 1; distance < group.count; distance *= 2) {
      const int partner = newrank ^ distance;
      send_recv<T>(comm, window(data, range_of(newrank, distance)), group.rank_of(partner),
                   window(data, range_of(partner, distance)), group.rank_of(partner));
    }
  });
}

}  // namespace dist
