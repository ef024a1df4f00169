// Right and wrong ways to continue in the middle of an epoch.
#pragma once

#include "tests/exercises/04_distributed_sampler/reference/my_indices.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace dist::exercise {

// `list` without its first `count` entries.
inline std::vector<std::size_t> without_first(const std::vector<std::size_t>& list,
                                              std::size_t count) {
  return {list.begin() + static_cast<std::ptrdiff_t>(std::min(count, list.size())), list.end()};
}

// Right, but written differently: pads or shortens the remaining order and deals it out like
// cards.
inline std::vector<std::size_t> deals(std::span<const std::size_t> order, std::size_t taken,
                                      int num_replicas, int rank, Policy policy) {
  const auto ranks = static_cast<std::size_t>(num_replicas);
  if (taken > order.size()) taken = order.size();
  std::vector<std::size_t> rest(order.begin() + static_cast<std::ptrdiff_t>(taken),
                                order.end());
  if (policy == Policy::drop) rest.resize(rest.size() - rest.size() % ranks);
  for (std::size_t next = 0; policy == Policy::pad && rest.size() % ranks != 0; ++next) {
    rest.push_back(order[next % order.size()]);
  }
  std::vector<std::size_t> mine;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (i % ranks == static_cast<std::size_t>(rank)) mine.push_back(rest[i]);
  }
  return mine;
}

// Skips `taken` entries of this rank's own list, although `taken` counts the entries of all
// ranks.
inline std::vector<std::size_t> skips_too_many(std::span<const std::size_t> order,
                                               std::size_t taken, int num_replicas, int rank,
                                               Policy policy) {
  return without_first(my_indices(order, num_replicas, rank, policy), taken);
}

// Right if the number of ranks divides `taken`.
inline std::vector<std::size_t> own_list(std::span<const std::size_t> order, std::size_t taken,
                                         int num_replicas, int rank, Policy policy) {
  return without_first(my_indices(order, num_replicas, rank, policy),
                       taken / static_cast<std::size_t>(num_replicas));
}

}  // namespace dist::exercise
