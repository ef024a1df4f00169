// Our solution of the exercise choose_all_reduce. More are in choose_all_reduce_changes.toml.
#pragma once

#include "02_broadcast/chunks.hpp"
#include "03_all_reduce/all_reduce.hpp"

#include <bit>

namespace dist::exercise {

// == reference | done
inline AllReduceAlgorithm choose_all_reduce_reference(double bytes, int ranks, double alpha_s,
                                                      double beta_s_per_byte,
                                                      double gamma_s_per_byte) {
  const double whole = alpha_s + bytes * beta_s_per_byte;
  const double chunk = alpha_s + bytes / ranks * beta_s_per_byte;
  const double add_whole = bytes * gamma_s_per_byte;
  const double add_chunk = bytes / ranks * gamma_s_per_byte;

  const auto newranks = std::bit_floor(static_cast<unsigned>(ranks));
  const int doublings = std::bit_width(newranks) - 1;
  double doubling = doublings * (whole + add_whole);
  if (newranks != static_cast<unsigned>(ranks)) doubling += 2 * whole + add_whole;
  const double ring = (ranks - 1) * (2 * chunk + add_chunk);
  return ring < doubling ? AllReduceAlgorithm::ring : AllReduceAlgorithm::recursive_doubling;
}

}  // namespace dist::exercise
