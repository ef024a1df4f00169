// Exercise: one step of a ring.
// Check it with ./learn check 1; ./learn hint 1 helps, a little more each time.
#pragma once

#include "common/check.hpp"         // MPI_CHECK(MPI_...(...)); mpi_count(size): a size as int
#include "common/communicator.hpp"  // comm.rank(), .size(), .left(), .right(), .get()
#include "tools/exercises/not_started.hpp"

#include <mpi.h>

#include <span>

namespace dist::exercise {

// Called on all ranks with as many elements in `out` and in `in`, the same number everywhere,
// which may be 0. Afterwards `in` holds the numbers of the rank on the left. On one rank left
// and right are the rank itself: its `in` becomes its `out`. The two do not overlap. When the
// call returns, `in` is complete and `out` may be written again.
//
// Target: one message per rank, to comm.right() (with one rank, none is needed). Right for any
// size and any number of ranks, with no help from MPI's copies of small messages. The calls are
// those of exchange.hpp.
inline void ring_shift(const Communicator& comm, std::span<const float> out,
                       std::span<float> in) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
