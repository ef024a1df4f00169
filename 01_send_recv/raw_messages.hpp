// The two MPI calls on which the whole course builds, without wrappers.
#pragma once

#include "common/communicator.hpp"

#include <span>

namespace dist {

// Sends rank 0's `numbers` to rank 1. Called on all ranks; the others do nothing. `numbers` has
// the same length on all ranks.
void raw_message(const Communicator& comm, std::span<float> numbers);

// Passes a running sum around the ring 0 -> 1 -> ... -> size - 1 -> 0. Every rank adds its own
// `numbers` before it passes the sum on. Afterwards rank r holds the sum of ranks 0 .. r, and
// rank 0, where the ring ends, holds the sum of all ranks. Called on all ranks.
void raw_ring(const Communicator& comm, std::span<float> numbers);

}  // namespace dist
