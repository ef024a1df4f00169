// What this file adds: the mean over all samples when the ranks hold different numbers of
// them. Builds on: 03, all_reduce. Look at: why the mean of the ranks' means is different.
#pragma once

#include "03_all_reduce/all_reduce.hpp"

#include <array>
#include <cstdint>

namespace dist {

// [4] The weighted mean. Called on all ranks. Returns (sum of all `sum`) / (sum of all
// `count`), with the same bits on every rank. `sum` is taken over this rank's `count` samples;
// `count` may be 0. Returns NaN if no rank has a sample.
//
// The mean of the ranks' means would give more weight to a sample on a rank with few samples:
// 3 of 4 right on one rank and 3 of 3 on another make 6 of 7 = 0.857, not (0.75 + 1) / 2.
//
// The sum and the count travel in one message as doubles, which are exact for whole numbers up
// to 2^53. An accuracy is therefore the same to the last bit on any number of ranks.
inline double mean_over_samples(const Communicator& comm, double sum, std::uint64_t count) {
  std::array both{sum, static_cast<double>(count)};
  all_reduce<double>(comm, both, ReduceOp::sum);
  return both[0] / both[1];
}

}  // namespace dist
