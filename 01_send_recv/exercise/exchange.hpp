// Exercise: two ranks swap their numbers.
// Check it with ./learn check 1; ./learn hint 1 helps, a little more each time.
#pragma once

#include "common/check.hpp"         // MPI_CHECK(MPI_...(...)); mpi_count(size): a size as int
#include "common/communicator.hpp"  // comm.rank(), comm.size(), comm.get(): MPI's own handle
#include "tools/exercises/not_started.hpp"

#include <mpi.h>

#include <span>

namespace dist::exercise {

// Called by two partners, each with the other's rank as `peer`; other pairs may do the same at
// the same time. A rank may also be its own peer, and then calls it alone.
//
// `out` goes to the peer, and what the peer has in its `out` comes to `in`. in.size() is
// exactly how many floats come; it may differ from out.size(), and either may be 0. The two do
// not overlap. When the call returns, `in` is complete and `out` may be written again.
//
// Target: one message from each partner, of out.size() floats (a rank that is its own peer may
// do without). Right for any size, with no help from MPI's copies of small messages. Use
// MPI_Send, MPI_Recv, MPI_Sendrecv, or MPI_Isend and MPI_Irecv with MPI_Wait or MPI_Waitall:
// these are what the check counts; collectives are not allowed.
inline void exchange(const Communicator& comm, int peer, std::span<const float> out,
                     std::span<float> in) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
