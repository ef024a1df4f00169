// Test data that cannot lie: every number says which rank it comes from and where it stood.
//
// With ones everywhere a broadcast that sends nothing, and a sum that counts one rank twice and
// forgets another, look right.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace dist {

// 1000 * rank + (index modulo a prime). Whole numbers: sums over up to 180 ranks are exact in
// float32. A prime, so that no chunk of a power of two looks like its neighbour.
inline float tracer_number(int rank, std::size_t index) {
  return static_cast<float>(1000 * rank + static_cast<int>(index % 997));
}

inline void fill_tracer_numbers(std::span<float> data, int rank) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = tracer_number(rank, i);
}

// How many elements of `data` differ from expected(index) (a double). A relative error of
// `tolerance` is let pass; with 0, none is.
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
