// The reference, written out.
#pragma once

#include "common/check.hpp"
#include "common/communicator.hpp"

#include <mpi.h>

#include <span>

namespace dist::exercise {

inline void ring_shift(const Communicator& comm, std::span<const float> out,
                       std::span<float> in) {
  MPI_CHECK(MPI_Sendrecv(out.data(), mpi_count(out.size()), MPI_FLOAT, comm.right(), 0,
                         in.data(), mpi_count(in.size()), MPI_FLOAT, comm.left(), 0, comm.get(),
                         MPI_STATUS_IGNORE));
}

}  // namespace dist::exercise
