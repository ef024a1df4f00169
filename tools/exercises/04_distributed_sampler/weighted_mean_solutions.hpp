// Known solutions of the exercise weighted_mean: the reference, and others, right and wrong.
// More are in weighted_mean_changes.toml.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/exercise/policy.hpp"

#include <array>
#include <cstdint>

namespace dist::exercise {

// == reference | done
inline double weighted_mean_reference(const Communicator& comm, double sum,
                                      std::uint64_t count) {
  std::array both{sum, static_cast<double>(count)};
  all_reduce<double>(comm, both, ReduceOp::sum);
  return both[0] / both[1];
}

// == float | large-counts | exchange the sum and the count as doubles
// Counts in float.
inline double weighted_mean_float(const Communicator& comm, double sum, std::uint64_t count) {
  std::array both{static_cast<float>(sum), static_cast<float>(count)};
  all_reduce<float>(comm, both, ReduceOp::sum);
  return static_cast<double>(both[0]) / static_cast<double>(both[1]);
}

// == two-messages | messages | the sum and the count fit into one message
// Calls all_reduce twice instead of once.
inline double weighted_mean_two_messages(const Communicator& comm, double sum,
                                         std::uint64_t count) {
  std::array both{sum};
  std::array counts{count};
  all_reduce<std::uint64_t>(comm, counts, ReduceOp::sum);
  all_reduce<double>(comm, both, ReduceOp::sum);
  return both[0] / static_cast<double>(counts[0]);
}

}  // namespace dist::exercise
