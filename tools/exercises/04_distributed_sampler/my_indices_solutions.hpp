// Known solutions of the exercise my_indices: the reference, and others, right and wrong.
// More are in my_indices_changes.toml.
#pragma once

#include "04_distributed_sampler/exercise/policy.hpp"
#include "common/random.hpp"

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace dist::exercise {

// == reference | done
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

// == zero-means-empty | pytorch | are DistributedSampler's
// Marks the places to be padded with 0, which is also the index of a sample.
inline std::vector<std::size_t> my_indices_zero_means_empty(std::span<const std::size_t> order,
                                                            int num_replicas, int rank,
                                                            Policy policy) {
  const auto ranks = static_cast<std::size_t>(num_replicas);
  std::vector<std::size_t> padded(order.begin(), order.end());
  if (policy == Policy::drop) padded.resize(order.size() / ranks * ranks);
  if (policy == Policy::pad) padded.resize((order.size() + ranks - 1) / ranks * ranks, 0);
  std::size_t next = 0;
  for (std::size_t& sample : padded) {
    if (sample == 0) sample = order[next++ % order.size()];  // also replaces sample 0
  }
  std::vector<std::size_t> mine;
  for (auto place = static_cast<std::size_t>(rank); place < padded.size(); place += ranks) {
    mine.push_back(padded[place]);
  }
  return mine;
}

// == ceil-too-late | pad | already rounded down
// Rounds up a quotient that is already whole.
inline std::vector<std::size_t> my_indices_ceil_too_late(std::span<const std::size_t> order,
                                                         int num_replicas, int rank,
                                                         Policy policy) {
  if (policy != Policy::pad) return my_indices_reference(order, num_replicas, rank, policy);
  const auto ranks = static_cast<std::size_t>(num_replicas);
  const auto each = static_cast<std::size_t>(std::ceil(order.size() / ranks));
  std::vector<std::size_t> mine;
  for (std::size_t k = 0; k < each; ++k) {
    mine.push_back(order[(k * ranks + static_cast<std::size_t>(rank)) % order.size()]);
  }
  return mine;
}

// == extra-turn | once | and no turn more
// Takes n / N + 1 samples, also where N divides n.
inline std::vector<std::size_t> my_indices_extra_turn(std::span<const std::size_t> order,
                                                      int num_replicas, int rank,
                                                      Policy policy) {
  if (policy != Policy::pad) return my_indices_reference(order, num_replicas, rank, policy);
  const auto ranks = static_cast<std::size_t>(num_replicas);
  std::vector<std::size_t> mine;
  for (std::size_t k = 0; k < order.size() / ranks + 1; ++k) {
    mine.push_back(order[(k * ranks + static_cast<std::size_t>(rank)) % order.size()]);
  }
  return mine;
}

// == remembers-the-number | once | this call's arguments alone
// Computes the number of samples once for all calls.
inline std::vector<std::size_t> my_indices_remembers_the_number(
    std::span<const std::size_t> order, int num_replicas, int rank, Policy policy) {
  static const std::size_t each =
      my_indices_reference(order, num_replicas, rank, policy).size();
  std::vector<std::size_t> mine = my_indices_reference(order, num_replicas, rank, policy);
  mine.resize(each, order.empty() ? 0 : order[0]);
  return mine;
}

}  // namespace dist::exercise
