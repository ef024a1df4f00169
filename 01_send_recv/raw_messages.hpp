// The two MPI calls that everything in this course is made of, as they are.
#pragma once

#include "common/communicator.hpp"

#include <span>

namespace dist {

// Rank 0's `numbers` to rank 1's: the smallest message there is. Called on all ranks; the
// others do nothing. `numbers` has the same length everywhere.
void raw_message(const Communicator& comm, std::span<float> numbers);

// One running sum goes around the ring 0 -> 1 -> ... -> size - 1 -> 0, and every rank adds its
// own `numbers` before it passes the sum on. Afterwards rank r holds the sum of ranks 0 .. r,
// and rank 0, where the round ends, the sum of all. Called on all ranks.
void raw_ring(const Communicator& comm, std::span<float> numbers);

}  // namespace dist
