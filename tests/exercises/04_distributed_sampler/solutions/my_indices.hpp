// Right: pads or shortens a copy, as PyTorch does in Python.
#pragma once

#include "04_distributed_sampler/exercise/policy.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace dist::exercise {

// The place in the order at which dealing ends.
inline std::size_t end_of(std::size_t samples, std::size_t ranks, Policy policy) {
  if (policy == Policy::exact) return samples;
  const std::size_t rounded_up = policy == Policy::pad ? ranks - 1 : 0;
  return (samples + rounded_up) / ranks * ranks;
}

inline std::vector<std::size_t> pads_a_copy(std::span<const std::size_t> order,
                                            int num_replicas, int rank, Policy policy) {
  std::vector<std::size_t> list(order.begin(), order.end());
  const std::size_t end = end_of(order.size(), static_cast<std::size_t>(num_replicas), policy);
  while (list.size() < end) {
    const std::size_t more = std::min(end - list.size(), order.size());
    list.insert(list.end(), order.begin(), order.begin() + static_cast<std::ptrdiff_t>(more));
  }
  list.resize(end);
  std::vector<std::size_t> mine;
  for (std::size_t place = 0; place < end; ++place) {
    if (static_cast<int>(place % static_cast<std::size_t>(num_replicas)) == rank) {
      mine.push_back(list[place]);
    }
  }
  return mine;
}

}  // namespace dist::exercise
