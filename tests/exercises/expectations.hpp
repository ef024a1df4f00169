// Shared by most checks of messages: functions that fill guarded memory with tracers and report
// which element is wrong.
#pragma once

#include "tests/exercises/exercise.hpp"
#include "tests/exercises/guarded.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <span>

namespace dist::exercise {

// The `count` elements of data that `rank` starts with.
inline Guarded tracers(const Trial& trial, int rank, std::size_t count) {
  Guarded data(count);
  for (std::size_t i = 0; i < count; ++i) data.span()[i] = trial.value(rank, i);
  return data;
}

// Checks that every element of `data` equals expected(index).
template <class Expected>
void expect_values(Trial& trial, std::span<const float> data, const std::string& where,
                   const Expected& expected) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    const double want = expected(i);
    if (static_cast<double>(data[i]) == want) continue;
    return trial.wrong(fmt::format("{}{} elements: element {} is {}, expected {}", where,
                                   data.size(), i, data[i], want));
  }
}

inline void expect_intact(Trial& trial, const Guarded& data, const std::string& where) {
  trial.expect(data.intact(), [&] {
    return fmt::format("{}{} elements: something was written out of bounds", where,
                       data.span().size());
  });
}

}  // namespace dist::exercise
