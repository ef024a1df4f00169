// What this file adds: the mean over all samples, when the ranks hold different numbers of
// them. Builds on: 03, all_reduce. Look at: why averaging the ranks' own means is not the same.
#pragma once

#include "03_all_reduce/all_reduce.hpp"

#include <array>
#include <cstdint>

namespace dist {

// Called on all ranks: (sum of all `sum`) / (sum of all `count`), the same bits on all. `sum`
// is over this rank's `count` samples, which may be none. NaN when there are no samples at all.
//
// The mean of the ranks' means would give a sample on a rank with few of them more weight than
// one on a rank with many: 3 right of 4 and 3 right of 3 are 6 of 7 = 0.857, not
// (0.75 + 1) / 2 = 0.875.
//
// Sum and count travel in one message, and in double: counts are exact up to 2^53. Sums of
// whole numbers, such as right answers, are exact too, so that an accuracy does not depend on
// the number of ranks by a single bit.
inline double mean_over_samples(const Communicator& comm, double sum, std::uint64_t count) {
  std::array both{sum, static_cast<double>(count)};
  all_reduce<double>(comm, both, ReduceOp::sum, AllReduceAlgorithm::recursive_doubling);
  return both[0] / both[1];
}

}  // namespace dist
