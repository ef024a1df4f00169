// Exercise: which samples belong to this rank?
// Check it with ./learn check 4; ./learn hint 4 prints the next hint.
#pragma once

#include "04_distributed_sampler/exercise/policy.hpp"
#include "tools/exercises/not_started.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace dist::exercise {

// `order` is the epoch's common order: it is the same on all ranks and contains every sample's
// index once. The indices can be any numbers. Returns the samples of rank `rank` of
// `num_replicas` ranks (0 <= rank < num_replicas), in the order in which the rank takes them.
// Called on one rank; sends no messages. The function needs only its arguments, which may
// describe any rank of any number of ranks.
//
// PyTorch's rule: the ranks take the order's entries in turn, one entry each.
//
//   order, 10 samples    4 1 7 5   3 9 0 8   6 2
//   taken by rank        0 1 2 3   0 1 2 3   0 1      of 4
//
// The policy says what happens to the remainder. In this example:
//   pad      the turns continue from the beginning of the order until all ranks have the same
//            number (3 each): rank 2 takes 4 again, and rank 3 takes 1 again. If there are
//            fewer samples than ranks, the turns may wrap around more than once
//   drop     the last, incomplete turn is left out (each rank has 2)
//   exact    ranks 0 and 1 have 3, ranks 2 and 3 have 2
// An empty order gives every rank no samples.
//
// Target: PyTorch's own indices, for any number of samples and ranks.
inline std::vector<std::size_t> my_indices(std::span<const std::size_t> order, int num_replicas,
                                           int rank, Policy policy) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
