// Right: calls the lesson's own function. Some wrong solutions are edited copies of this file.
#pragma once

#include "04_distributed_sampler/weighted_mean.hpp"

namespace dist::exercise {

inline double weighted_mean(const Communicator& comm, double sum, std::uint64_t count) {
  return mean_over_samples(comm, sum, count);
}

}  // namespace dist::exercise
