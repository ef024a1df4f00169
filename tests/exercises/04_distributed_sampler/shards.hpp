// Orders whose entries cannot be mistaken for places, and the entries that a rank must take.
#pragma once

#include "04_distributed_sampler/exercise/policy.hpp"
#include "tests/exercises/exercise.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace dist::exercise {

constexpr std::array kPolicies{Policy::pad, Policy::drop, Policy::exact};

inline std::string to_string(Policy policy) {
  return policy == Policy::pad ? "pad" : policy == Policy::drop ? "drop" : "exact";
}

// `n` different entries in shuffled order, all at least 10000.
inline std::vector<std::size_t> shuffled(std::size_t n) {
  std::vector<std::size_t> order(n);
  for (std::size_t place = 0; place < n; ++place) {
    order[place] = 10000 + (place * 7919 + 31) % 99991;  // 99991 is prime, so no entry repeats
  }
  return order;
}

// Deals out the entries one by one, as the contract says.
inline std::vector<std::size_t> expected_shard(std::span<const std::size_t> order,
                                               std::size_t taken, int num_replicas, int rank,
                                               Policy policy) {
  const auto ranks = static_cast<std::size_t>(num_replicas);
  std::vector<std::size_t> mine;
  std::size_t place = taken;
  for (std::size_t turn_begins = taken; turn_begins < order.size(); turn_begins += ranks) {
    if (policy == Policy::drop && turn_begins + ranks > order.size()) break;
    for (std::size_t seat = 0; seat < ranks; ++seat, ++place) {
      if (policy == Policy::exact && place >= order.size()) break;
      if (seat == static_cast<std::size_t>(rank)) mine.push_back(order[place % order.size()]);
    }
  }
  return mine;
}

inline std::string show(std::span<const std::size_t> indices) {
  const auto some = indices.first(std::min<std::size_t>(indices.size(), 12));
  return fmt::format("[{}{}]", fmt::join(some, " "),
                     some.size() < indices.size() ? " ..." : "");
}

// "10 samples, rank 2 of 4, pad".
inline std::string which(std::size_t samples, int num_replicas, int rank, Policy policy) {
  return fmt::format("{} samples, rank {} of {}, {}", samples, rank, num_replicas,
                     to_string(policy));
}

}  // namespace dist::exercise
