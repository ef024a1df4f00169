// Right: calls the lesson's own function. Some wrong solutions are edited copies of this file.
#pragma once

#include "04_distributed_sampler/distributed_sampler.hpp"
#include "04_distributed_sampler/exercise/policy.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace dist::exercise {

inline std::vector<std::size_t> my_indices(std::span<const std::size_t> order, int num_replicas,
                                           int rank, Policy policy) {
  std::vector<std::size_t> places =
      policy == Policy::exact
          ? exact_shard(order.size(), num_replicas, rank)
          : DistributedSampler(order.size(), num_replicas, rank,
                               {.shuffle = false, .drop_last = policy == Policy::drop})
                .indices();
  for (std::size_t& place : places) place = order[place];
  return places;
}

}  // namespace dist::exercise
