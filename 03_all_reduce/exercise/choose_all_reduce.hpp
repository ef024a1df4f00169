// Advanced exercise: predict which all-reduce is faster, without sending anything.
// Check it with ./learn check 3; ./learn hint 3 prints the next hint.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "tools/exercises/not_started.hpp"

namespace dist::exercise {

// Returns AllReduceAlgorithm::ring or AllReduceAlgorithm::recursive_doubling, whichever takes
// less time for `bytes` on `ranks` ranks by the formulas in README.md and further.md. A
// message of n bytes takes alpha_s + n beta_s_per_byte seconds, even if other ranks send at the
// same time; adding n bytes to n others takes n gamma_s_per_byte. If both algorithms take the
// same time, return either.
//
// This is a pure function: it sends nothing and measures nothing, so all ranks make the same
// choice. `ranks` is at least 1, and the other arguments are at least 0.
//
// If the number of ranks N is not a power of two, log2 N in the formula of recursive doubling
// is the logarithm of the largest power of two up to N. Each surplus rank first sends its
// tensor to a neighbour, which adds the tensor to its own. At the end, the surplus rank
// receives the result. These steps take two more messages of n bytes and one more addition, one
// after the other.
//
// Target: the right choice 1 % below and 1 % above the size at which the two formulas cross.
inline AllReduceAlgorithm choose_all_reduce(double bytes, int ranks, double alpha_s,
                                            double beta_s_per_byte, double gamma_s_per_byte) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
