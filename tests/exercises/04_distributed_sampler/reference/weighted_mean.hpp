// The reference, written out. Most wrong solutions are edited copies of it.
#pragma once

#include "03_all_reduce/all_reduce.hpp"

#include <array>
#include <cmath>
#include <cstdint>

namespace dist::exercise {

inline double weighted_mean(const Communicator& comm, double sum, std::uint64_t count) {
  std::array both{sum, static_cast<double>(count)};
  all_reduce<double>(comm, both, ReduceOp::sum);
  return both[0] / both[1];
}

}  // namespace dist::exercise
