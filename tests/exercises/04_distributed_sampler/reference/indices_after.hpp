// The reference: one loop, whose end depends on the policy.
#pragma once

#include "04_distributed_sampler/exercise/policy.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace dist::exercise {

inline std::vector<std::size_t> indices_after(std::span<const std::size_t> order,
                                              std::size_t taken, int num_replicas, int rank,
                                              Policy policy) {
  if (taken >= order.size()) return {};
  const auto ranks = static_cast<std::size_t>(num_replicas);
  const std::size_t left = order.size() - taken;
  std::size_t seats = left;
  if (policy == Policy::drop) seats = left / ranks * ranks;
  if (policy == Policy::pad) seats = (left + ranks - 1) / ranks * ranks;
  std::vector<std::size_t> mine;
  for (auto seat = static_cast<std::size_t>(rank); seat < seats; seat += ranks) {
    mine.push_back(order[(taken + seat) % order.size()]);
  }
  return mine;
}

}  // namespace dist::exercise
