// Solutions to lesson 4's exercises, except edited copies of others (see solutions.txt).
#pragma once

#include "02_broadcast/random.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/exercise/policy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dist::exercise {

// == my_indices/reference
inline std::vector<std::size_t> my_indices_reference(std::span<const std::size_t> order,
                                                     int num_replicas, int rank,
                                                     Policy policy) {
  const auto ranks = static_cast<std::size_t>(num_replicas);
  const std::size_t samples = order.size();
  std::size_t end = samples;
  if (policy == Policy::drop) end = samples / ranks * ranks;
  if (policy == Policy::pad) end = (samples + ranks - 1) / ranks * ranks;
  std::vector<std::size_t> mine;
  for (auto place = static_cast<std::size_t>(rank); place < end; place += ranks) {
    mine.push_back(order[place % samples]);
  }
  return mine;
}

// == indices_after/reference
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

// == weighted_mean/reference
inline double weighted_mean_reference(const Communicator& comm, double sum,
                                      std::uint64_t count) {
  std::array both{sum, static_cast<double>(count)};
  all_reduce<double>(comm, both, ReduceOp::sum);
  return both[0] / both[1];
}

}  // namespace dist::exercise
