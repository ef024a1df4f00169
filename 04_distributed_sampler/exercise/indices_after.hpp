// Exercise: an epoch goes on where another run left it.
// Check your code with ./learn check 4. For hints, run ./learn hint 4 one or more times.
#pragma once

#include "04_distributed_sampler/exercise/policy.hpp"
#include "tools/exercises/not_started.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace dist::exercise {

// A run stopped in mid-epoch. Its ranks, however many they were, had taken turns along `order`
// (my_indices.hpp) and were done with its first `taken` entries. Returns what is left for rank
// `rank` of `num_replicas` ranks, which may be more or fewer than before: they go on taking
// turns at the place where the order was left, the first of them rank 0.
//
//   order, 10 samples    4 1 7   5 3 9   0 8 6   2
//   3 ranks took         0 1 2   0 1 2  |                  6 entries, then the run stopped
//   2 ranks go on                         0 1 0  1         rank 0: 0 6, rank 1: 8 2
//
// What does not divide among the new ranks is a matter of the policy, as in my_indices:
//   pad      all take ceil(left / num_replicas), where `left` is how many entries are left;
//   after
//            the order's last entry comes its first, and so on, again and again
//   drop     all take floor(left / num_replicas)
//   exact    every entry that is left on one rank
// So with `taken` = 0 this is my_indices, and on as many ranks as before it is what was left of
// each rank's list, if all had taken as many.
//
// The padding of the run before counts as taken: `taken` may be larger than the order. Then
// nothing is left, for nobody, whatever the policy.
//
// Of one rank, no messages; asked about ranks of worlds of any size.
inline std::vector<std::size_t> indices_after(std::span<const std::size_t> order,
                                              std::size_t taken, int num_replicas, int rank,
                                              Policy policy) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
