// Right, but written differently: solves for the size at which the two costs are equal.
#pragma once

#include "03_all_reduce/all_reduce.hpp"

#include <cmath>

namespace dist::exercise {

inline double doublings(int ranks) {
  return std::floor(std::log2(ranks));
}

inline bool is_power_of_two(int ranks) {
  return (ranks & (ranks - 1)) == 0;
}

inline AllReduceAlgorithm by_crossover(double n, int ranks, double alpha, double beta,
                                       double gamma) {
  const double p = ranks;
  const double surplus = is_power_of_two(ranks) ? 0 : 1;
  const double messages = 2 * (p - 1) - doublings(ranks) - 2 * surplus;
  const double per_byte = (doublings(ranks) + 2 * surplus - 2 * (p - 1) / p) * beta +
                          (doublings(ranks) + surplus - (p - 1) / p) * gamma;
  return n * per_byte > messages * alpha ? AllReduceAlgorithm::ring
                                         : AllReduceAlgorithm::recursive_doubling;
}

}  // namespace dist::exercise
