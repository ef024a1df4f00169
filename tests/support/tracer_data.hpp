// Test data in which every number shows its rank and its position on that rank.
#pragma once

#include "01_send_recv/tracer_numbers.hpp"
#include "02_broadcast/hash.hpp"
#include "tests/support/mpi_test.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dist::test {

inline std::vector<float> my_numbers(std::size_t count) {
  std::vector<float> numbers(count);
  fill_tracer_numbers(numbers, world().rank());
  return numbers;
}

inline bool all_from(const std::vector<float>& data, int rank) {
  return count_wrong(data, [&](std::size_t i) { return tracer_number(rank, i); }) == 0;
}

// Called on all ranks. Returns whether all of them have the same bits.
inline bool same_bits_everywhere(std::span<const float> data) {
  const std::vector<std::uint64_t> hashes = world().all_gather(hash_of(data));
  return std::ranges::count(hashes, hashes[0]) == world().size();
}

// The sum of element `index` over all ranks.
inline double sum_of_all(std::size_t index) {
  return tracer_sum(world().size(), index);
}

}  // namespace dist::test
