// Known solutions of the exercise indices_after: the reference, and others, right and wrong.
// More are in indices_after_changes.toml.
#pragma once

#include "04_distributed_sampler/exercise/policy.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace dist::exercise {

// == reference | done
// One loop, whose end depends on the policy.
inline std::vector<std::size_t> indices_after_reference(std::span<const std::size_t> order,
                                                        std::size_t taken, int num_replicas,
                                                        int rank, Policy policy) {
  if (taken >= order.size()) return {};
  const auto ranks = static_cast<std::size_t>(num_replicas);
  const std::size_t left = order.size() - taken;
  std::size_t total = left;
  if (policy == Policy::drop) total = left / ranks * ranks;
  if (policy == Policy::pad) total = (left + ranks - 1) / ranks * ranks;
  std::vector<std::size_t> mine;
  for (auto next = static_cast<std::size_t>(rank); next < total; next += ranks) {
    mine.push_back(order[(taken + next) % order.size()]);
  }
  return mine;
}

// == wraps-once | few-samples | wraps around more than once
// Starts the order over only once, which is not enough for 1 entry of 3 on 8 ranks.
inline std::vector<std::size_t> indices_after_wraps_once(std::span<const std::size_t> order,
                                                         std::size_t taken, int num_replicas,
                                                         int rank, Policy policy) {
  if (taken >= order.size()) return {};
  const auto ranks = static_cast<std::size_t>(num_replicas);
  const std::size_t left = order.size() - taken;
  std::size_t end = order.size();
  if (policy == Policy::drop) end = taken + left / ranks * ranks;
  if (policy == Policy::pad) end = taken + (left + ranks - 1) / ranks * ranks;
  std::vector<std::size_t> twice(order.begin(), order.end());
  twice.insert(twice.end(), order.begin(), order.end());
  std::vector<std::size_t> mine;
  for (std::size_t place = taken + static_cast<std::size_t>(rank);
       place < std::min(end, twice.size()); place += ranks) {
    mine.push_back(twice[place]);
  }
  return mine;
}

// == counts-from-0 | other-ranks | from place `taken`, not from place 0
// Ends where a whole epoch would end.
inline std::vector<std::size_t> indices_after_counts_from_0(std::span<const std::size_t> order,
                                                            std::size_t taken, int num_replicas,
                                                            int rank, Policy policy) {
  const auto ranks = static_cast<std::size_t>(num_replicas);
  if (policy != Policy::pad || taken >= order.size()) {
    return indices_after_reference(order, taken, num_replicas, rank, policy);
  }
  const std::size_t end = (order.size() + ranks - 1) / ranks * ranks;
  std::vector<std::size_t> mine;
  for (std::size_t p = taken + static_cast<std::size_t>(rank); p < end; p += ranks) {
    mine.push_back(order[p % order.size()]);
  }
  return mine;
}

}  // namespace dist::exercise
