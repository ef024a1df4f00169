// What this file adds: a count of how often all ranks together took each sample. The count
// shows what padding repeats, and what dropping leaves out.
// Builds on: 03, all_reduce.
#pragma once

#include "03_all_reduce/all_reduce.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dist {

struct Coverage {
  std::size_t taken = 0;                       // by all ranks, counting repetitions
  std::size_t fewest = 0, most = 0;            // taken by a single rank
  std::size_t once = 0, again = 0, never = 0;  // samples taken once, more than once, never
  // Whether samples were taken evenly: each floor or ceil of `taken` / size times.
  bool even = false;
};

// [3] The count. Called on all ranks; `mine` holds this rank's samples of a data set with
// `size` samples. Every rank counts its samples in a table; an all-reduce adds up the tables.
inline Coverage count_coverage(const Communicator& comm, std::size_t size,
                               const std::vector<std::size_t>& mine) {
  std::vector<std::int32_t> times(size, 0);
  for (const std::size_t index : mine) ++times[index];
  all_reduce<std::int32_t>(comm, times, ReduceOp::sum);
  const std::vector<std::size_t> counts = comm.all_gather(mine.size());

  Coverage result;
  result.fewest = std::ranges::min(counts);
  result.most = std::ranges::max(counts);
  for (const std::int32_t n : times) {
    result.taken += static_cast<std::size_t>(n);
    ++(n == 0 ? result.never : n == 1 ? result.once : result.again);
  }
  result.even = std::ranges::all_of(times, [&](std::int32_t n) {
    const auto taken = static_cast<std::size_t>(n);
    return taken == result.taken / size || taken == (result.taken + size - 1) / size;
  });
  return result;
}

}  // namespace dist
