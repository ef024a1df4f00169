// Exercise, advanced: which all-reduce is faster, before anybody has sent anything.
// Check it with ./learn check 3; ./learn hint 3 helps, a little more each time.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "tools/exercises/not_started.hpp"

namespace dist::exercise {

// Which all-reduce of `bytes` over `ranks` ranks takes less time, by the formulas of the
// README's section "Cost": AllReduceAlgorithm::ring or AllReduceAlgorithm::recursive_doubling.
// A message of n bytes takes alpha_s + n beta_s_per_byte seconds, whoever else sends; adding n
// bytes to n others takes n gamma_s_per_byte. Where both take the same time, either will do.
//
// A pure function: it sends nothing and measures nothing, so that all ranks choose alike.
// `ranks` is at least 1, the rest at least 0.
//
// With a number of ranks that is no power of two, log2 N in the README's formula of recursive
// doubling is the logarithm of the largest power of two that is not larger than N; the ranks
// beyond it hand their tensor to a neighbour first, who adds it to his own, and get the result
// back in the end: two more messages of n bytes and one more addition, one after the other.
//
// Target: right on both sides of the size at which the two curves cross, 1 % away from it.
inline AllReduceAlgorithm choose_all_reduce(double bytes, int ranks, double alpha_s,
                                            double beta_s_per_byte, double gamma_s_per_byte) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
