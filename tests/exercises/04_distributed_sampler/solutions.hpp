// Solutions to lesson 4's exercises, except edited copies of others (see solutions.txt).
#pragma once

#include "02_broadcast/random.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "04_distributed_sampler/exercise/policy.hpp"
#include "04_distributed_sampler/weighted_mean.hpp"

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

// == my_indices/by-lesson
inline std::vector<std::size_t> my_indices_by_lesson(std::span<const std::size_t> order,
                                                     int num_replicas, int rank,
                                                     Policy policy) {
  std::vector<std::size_t> places =
      policy == Policy::exact
          ? exact_shard(order.size(), num_replicas, rank)
          : DistributedSampler(order.size(), num_replicas, rank,
                               {.shuffle = false, .drop_last = policy == Policy::drop})
                .indices();
  for (std::size_t& place : places) place = order[place];
  return places;
}

// == helpers
// The place in the order at which dealing ends.
inline std::size_t end_of(std::size_t samples, std::size_t ranks, Policy policy) {
  if (policy == Policy::exact) return samples;
  const std::size_t rounded_up = policy == Policy::pad ? ranks - 1 : 0;
  return (samples + rounded_up) / ranks * ranks;
}

// == my_indices/pads-a-copy
inline std::vector<std::size_t> my_indices_pads_a_copy(std::span<const std::size_t> order,
                                                       int num_replicas, int rank,
                                                       Policy policy) {
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

// == indices_after/reference
// One loop, whose end depends on the policy.
inline std::vector<std::size_t> indices_after_reference(std::span<const std::size_t> order,
                                                        std::size_t taken, int num_replicas,
                                                        int rank, Policy policy) {
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

// == helpers
// `list` without its first `count` entries.
inline std::vector<std::size_t> without_first(const std::vector<std::size_t>& list,
                                              std::size_t count) {
  return {list.begin() + static_cast<std::ptrdiff_t>(std::min(count, list.size())), list.end()};
}

// == indices_after/deals
inline std::vector<std::size_t> indices_after_deals(std::span<const std::size_t> order,
                                                    std::size_t taken, int num_replicas,
                                                    int rank, Policy policy) {
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

// == weighted_mean/reference
inline double weighted_mean_reference(const Communicator& comm, double sum,
                                      std::uint64_t count) {
  std::array both{sum, static_cast<double>(count)};
  all_reduce<double>(comm, both, ReduceOp::sum);
  return both[0] / both[1];
}

}  // namespace dist::exercise
