// Exercise: continue an epoch where an earlier run left off.
// Check it with ./learn check 4; ./learn hint 4 prints the next hint.
#pragma once

#include "04_distributed_sampler/exercise/policy.hpp"
#include "tools/exercises/not_started.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace dist::exercise {

// An earlier run stopped in the middle of an epoch. Its ranks, however many there were, had
// taken the entries of `order` in turn (my_indices.hpp) and had finished the first `taken` of
// them. Now there are `num_replicas` ranks, which may be more or fewer than before. They take
// the remaining entries in turn, beginning with rank 0. Returns the remaining samples of rank
// `rank`.
//
//   order, 10 samples    4 1 7   5 3 9   0 8 6   2
//   3 ranks took         0 1 2   0 1 2  |                  6 entries, then the run stopped
//   2 ranks continue                      0 1 0  1         rank 0: 0 6, rank 1: 8 2
//
// As in my_indices, the policy decides what happens to the remainder. With `left` entries left:
//   pad      every rank takes ceil(left / num_replicas) samples. After its last entry the order
//            starts over, as often as needed
//   drop     every rank takes floor(left / num_replicas) samples
//   exact    every entry that is left goes to exactly one rank
// With `taken` = 0, the result is therefore that of my_indices. On the same number of ranks as
// before, the result is the remaining part of each rank's list, provided that all ranks had
// taken equally many samples.
//
// The earlier run's padding counts as taken, so `taken` may exceed the length of the order. In
// that case, no rank gets any more samples, whatever the policy.
//
// Called on one rank; sends no messages. The checks call it for worlds of any size.
inline std::vector<std::size_t> indices_after(std::span<const std::size_t> order,
                                              std::size_t taken, int num_replicas, int rank,
                                              Policy policy) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
