// Known solutions of the exercise weighted_mean: the reference, and others, right and wrong.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/exercise/policy.hpp"

#include <array>
#include <cmath>
#include <cstdint>

namespace dist::exercise {

// == reference | done
inline double weighted_mean_reference(const Communicator& comm, double sum,
                                      std::uint64_t count) {
  std::array both{sum, static_cast<double>(count)};
  all_reduce<double>(comm, both, ReduceOp::sum);
  return both[0] / both[1];
}

// == mean-of-means | uneven | gives samples on small shards more weight
// Averages the ranks' means.
inline double weighted_mean_mean_of_means(const Communicator& comm, double sum,
                                          std::uint64_t count) {
  std::array both{sum / static_cast<double>(count), 1.0};
  all_reduce<double>(comm, both, ReduceOp::sum);
  return both[0] / both[1];
}

// == by-ranks | even | not by the number of ranks
// Divides the sum by the number of ranks.
inline double weighted_mean_by_ranks(const Communicator& comm, double sum,
                                     std::uint64_t count) {
  std::array both{sum, 1.0};
  all_reduce<double>(comm, both, ReduceOp::sum);
  return both[0] / both[1];
}

// == weights-its-mean | uneven | divide afterwards, once
// Divides before the exchange: 0 / 0 on a rank without samples.
inline double weighted_mean_weights_its_mean(const Communicator& comm, double sum,
                                             std::uint64_t count) {
  std::array both{sum / static_cast<double>(count) * static_cast<double>(count),
                  static_cast<double>(count)};
  all_reduce<double>(comm, both, ReduceOp::sum);
  return both[0] / both[1];
}

// == leaves-early | empty-rank | leaves the others waiting
// Returns before the all-reduce if it has no samples.
inline double weighted_mean_leaves_early(const Communicator& comm, double sum,
                                         std::uint64_t count) {
  if (count == 0) return std::nan("");
  std::array both{sum, static_cast<double>(count)};
  all_reduce<double>(comm, both, ReduceOp::sum);
  return both[0] / both[1];
}

// == zero | no-samples | 0 would look like a result
// Returns 0 if there are no samples at all.
inline double weighted_mean_zero(const Communicator& comm, double sum, std::uint64_t count) {
  std::array both{sum, static_cast<double>(count)};
  all_reduce<double>(comm, both, ReduceOp::sum);
  return both[1] == 0 ? 0 : both[0] / both[1];
}

// == float | large-counts | exchange the sum and the count as doubles
// Counts in float.
inline double weighted_mean_float(const Communicator& comm, double sum, std::uint64_t count) {
  std::array both{static_cast<float>(sum), static_cast<float>(count)};
  all_reduce<float>(comm, both, ReduceOp::sum);
  return static_cast<double>(both[0]) / static_cast<double>(both[1]);
}

// == own-order | same-bits | in its own order
// Each rank adds in its own order.
inline double weighted_mean_own_order(const Communicator& comm, double sum,
                                      std::uint64_t count) {
  std::array both{sum, static_cast<double>(count)};
  std::array passing = both;
  for (int step = 1; step < comm.size(); ++step) {
    std::array<double, 2> coming{};
    send_recv<double>(comm, passing, comm.right(), coming, comm.left());
    both[0] += coming[0];
    both[1] += coming[1];
    passing = coming;
  }
  return both[0] / both[1];
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

// == mean-times-count | uneven | is not always the sum again
// A mean that is multiplied by its count is not always the sum again.
inline double weighted_mean_mean_times_count(const Communicator& comm, double sum,
                                             std::uint64_t count) {
  const double n = static_cast<double>(count);
  const double mean = count == 0 ? 0 : sum / n;
  std::array both{mean * n, n};
  all_reduce<double>(comm, both, ReduceOp::sum);
  return both[0] / both[1];
}

}  // namespace dist::exercise
