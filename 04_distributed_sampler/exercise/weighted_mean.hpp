// Exercise: the mean over the samples of all ranks.
// Check your code with ./learn check 4. For hints, run ./learn hint 4 one or more times.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "tools/exercises/not_started.hpp"

#include <cstdint>

namespace dist::exercise {

// Called on all ranks. `sum` is over this rank's `count` samples: right answers, say, or
// losses. Returns the mean over the samples of all ranks, the same bits on all of them. Ranks
// may hold different numbers of samples. One that holds none passes 0 and 0, and gets the mean
// like the others. If nobody holds any, all get NaN.
//
// Sums of whole numbers are exact, and counts are, up to 2^53.
//
// Target: the messages of one all_reduce (03, all_reduce.hpp) of two numbers, by the algorithm
// that it chooses itself:
//   all_reduce<double>(comm, numbers, ReduceOp::sum);   // or avg, max
inline double weighted_mean(const Communicator& comm, double sum, std::uint64_t count) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
