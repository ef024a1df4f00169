// Test data in which every number shows its index and the rank from which it came.
//
// If all data were ones, a broadcast that sends nothing would look right, and so would a sum
// that counts one rank twice and forgets another.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace dist {

// Returns 1000 * rank + (index modulo a prime): whole numbers, so sums over up to 180 ranks are
// exact in float32. Because of the prime, no chunk of 2^k numbers looks like its neighbour.
inline float tracer_number(int rank, std::size_t index) {
  return static_cast<float>(1000 * rank + static_cast<int>(index % 997));
}

// Returns the sum over all ranks, whose average is that of the first rank and the last.
inline double tracer_sum(int ranks, std::size_t index) {
  return ranks * (double{tracer_number(0, index)} + tracer_number(ranks - 1, index)) / 2;
}

inline void fill_tracer_numbers(std::span<float> data, int rank) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = tracer_number(rank, i);
}

// Returns how many elements of `data` differ from expected(index), a double, by more than the
// relative error `tolerance`.
template <class Expected>
std::size_t count_wrong(std::span<const float> data, Expected expected,
                        double tolerance = 0.0) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const double want = expected(i);
    // Written so that a NaN counts as wrong.
    if (!(std::abs(static_cast<double>(data[i]) - want) <= tolerance * std::abs(want))) ++wrong;
  }
  return wrong;
}

}  // namespace dist
