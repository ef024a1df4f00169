// Known solutions of the exercise choose_all_reduce: the reference, and others, right and
// wrong.
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

// == a-third | one-rank | Either of the two algorithms will do
// Names a third algorithm for a single rank.
inline AllReduceAlgorithm choose_all_reduce_a_third(double bytes, int ranks, double alpha_s,
                                                    double beta_s_per_byte,
                                                    double gamma_s_per_byte) {
  if (ranks == 1) return AllReduceAlgorithm::naive;
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

// == always-ring | nothing-to-send | only alpha counts
// Always takes the ring, because it sends the fewest bytes.
inline AllReduceAlgorithm choose_all_reduce_always_ring(double bytes, int ranks, double alpha_s,
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
  return doubling == doubling ? AllReduceAlgorithm::ring
                              : AllReduceAlgorithm::recursive_doubling;
}

// == whole-tensor | no-latency | less than 2 n in total
// Assumes that each of the ring's messages is the whole tensor.
inline AllReduceAlgorithm choose_all_reduce_whole_tensor(double bytes, int ranks,
                                                         double alpha_s, double beta_s_per_byte,
                                                         double gamma_s_per_byte) {
  const double whole = alpha_s + bytes * beta_s_per_byte;
  const double chunk = alpha_s + bytes / ranks * beta_s_per_byte;
  const double add_whole = bytes * gamma_s_per_byte;
  const double add_chunk = bytes / ranks * gamma_s_per_byte;

  const auto newranks = std::bit_floor(static_cast<unsigned>(ranks));
  const int doublings = std::bit_width(newranks) - 1;
  double doubling = doublings * (whole + add_whole);
  if (newranks != static_cast<unsigned>(ranks)) doubling += 2 * whole + add_whole;
  const double ring = (ranks - 1) * (2 * whole + add_whole);
  return ring < doubling ? AllReduceAlgorithm::ring : AllReduceAlgorithm::recursive_doubling;
}

// == fixed-size | crossover | at that size the choice must change
// Always switches at 64 KiB.
inline AllReduceAlgorithm choose_all_reduce_fixed_size(double bytes, int ranks, double alpha_s,
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
  return bytes >= 65536 ? AllReduceAlgorithm::ring : AllReduceAlgorithm::recursive_doubling;
}

// == whole-numbers | crossover | is 0 for integers
// Writes (ranks - 1) / ranks, which is 0 in C++.
inline AllReduceAlgorithm choose_all_reduce_whole_numbers(double bytes, int ranks,
                                                          double alpha_s,
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
  const double share = (ranks - 1) / ranks * bytes;
  const double ring =
      2 * (ranks - 1) * alpha_s + 2 * share * beta_s_per_byte + share * gamma_s_per_byte;
  return ring < doubling ? AllReduceAlgorithm::ring : AllReduceAlgorithm::recursive_doubling;
}

// == adding-is-free | adding | adding costs gamma per byte
// Leaves gamma out.
inline AllReduceAlgorithm choose_all_reduce_adding_is_free(double bytes, int ranks,
                                                           double alpha_s,
                                                           double beta_s_per_byte,
                                                           double gamma_s_per_byte) {
  gamma_s_per_byte = 0;
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

// == rounds-up | surplus-ranks | send their tensor first
// Rounds log2 N up if N is not a power of two.
inline AllReduceAlgorithm choose_all_reduce_rounds_up(double bytes, int ranks, double alpha_s,
                                                      double beta_s_per_byte,
                                                      double gamma_s_per_byte) {
  const double whole = alpha_s + bytes * beta_s_per_byte;
  const double chunk = alpha_s + bytes / ranks * beta_s_per_byte;
  const double add_whole = bytes * gamma_s_per_byte;
  const double add_chunk = bytes / ranks * gamma_s_per_byte;

  const auto newranks = std::bit_floor(static_cast<unsigned>(ranks));
  const int doublings = std::bit_width(newranks) - 1;
  double doubling = doublings * (whole + add_whole);
  if (newranks != static_cast<unsigned>(ranks)) doubling += whole + add_whole;
  const double ring = (ranks - 1) * (2 * chunk + add_chunk);
  return ring < doubling ? AllReduceAlgorithm::ring : AllReduceAlgorithm::recursive_doubling;
}

}  // namespace dist::exercise
