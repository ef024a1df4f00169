// Exercise: one step of a ring.
// Check it with ./learn check 1; ./learn hint 1 prints the next hint.
#pragma once

#include "common/check.hpp"         // MPI_CHECK(MPI_...(...)); mpi_count(size): a size as int
#include "common/communicator.hpp"  // comm.rank(), .size(), .left(), .right(), .get()
#include "tools/exercises/not_started.hpp"

#include <mpi.h>

#include <span>

namespace dist::exercise {

// Called on all ranks. Afterwards `in` holds the numbers that the rank on the left had in its
// `out`. Ranks may send different numbers of elements, including 0: `in` is exactly as long as
// the left rank's `out`, so it may be longer or shorter than this rank's own. `in` and `out` do
// not overlap. With one rank, both neighbours are the rank itself: `in` becomes a copy of
// `out`. When the call returns, `in` is complete, and the caller may overwrite `out`.
//
// Target: one message per rank, to comm.right() (with one rank, none is needed), and all at
// about the same time, not one after the other. The function must work for any size and any
// number of ranks, without relying on MPI's copies of small messages. Use the same MPI calls as
// in exchange.hpp.
//
// In ./learn mine, this function carries every message of your ring all-reduce.
inline void ring_shift(const Communicator& comm, std::span<const float> out,
                       std::span<float> in) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
