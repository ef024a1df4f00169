// Exercise: the mean over the samples of all ranks.
// Check it with ./learn check 4; ./learn hint 4 prints the next hint.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "tools/exercises/not_started.hpp"

#include <cstdint>

namespace dist::exercise {

// Called on all ranks. `sum` is over this rank's `count` samples: for example, the sum of their
// losses or the number of right answers. Returns the mean over the samples of all ranks, with
// the same bits on every rank. The ranks may hold different numbers of samples. A rank without
// samples passes 0 and 0 and gets the same mean. If no rank has samples, all ranks get NaN.
//
// Counts, and sums of whole numbers, are exact up to 2^53.
//
// Target: the messages of one all_reduce (03, all_reduce.hpp) of two numbers, with its default
// algorithm:
//   all_reduce<double>(comm, numbers, ReduceOp::sum);
inline double weighted_mean(const Communicator& comm, double sum, std::uint64_t count) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
