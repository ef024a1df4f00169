// Exercise: two ranks swap their numbers.
// Check it with ./learn check 1; ./learn hint 1 prints the next hint.
#pragma once

#include "common/check.hpp"         // MPI_CHECK(MPI_...(...)); mpi_count(size): a size as int
#include "common/communicator.hpp"  // comm.rank(), comm.size(), comm.get(): MPI's own handle
#include "tools/exercises/not_started.hpp"

#include <mpi.h>

#include <span>

namespace dist::exercise {

// Called by two ranks, each with the other's rank as `peer`. Other pairs may call it at the
// same time. The spans of both ranks all have the same length, which may be 0; `in` and `out`
// do not overlap.
//
// Sends `out` to the peer and receives the peer's `out` into `in`. When the call returns, `in`
// is complete, and the caller may overwrite `out`.
//
// Target: one message of out.size() floats from each rank, in about 5 lines. The function must
// work for any size, without relying on MPI's copies of small messages. Use MPI_Send, MPI_Recv,
// MPI_Sendrecv (or MPI_Sendrecv_replace), or MPI_Isend and MPI_Irecv with MPI_Wait or
// MPI_Waitall, or persistent requests (MPI_Send_init, MPI_Recv_init, MPI_Start): the check
// counts these. Collectives are not allowed.
inline void exchange(const Communicator& comm, int peer, std::span<const float> out,
                     std::span<float> in) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
