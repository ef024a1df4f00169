// count_traffic of common/watch.hpp.
#pragma once

#include "common/watch.hpp"

#include <mpi.h>

namespace dist::watch {

// False if a count is running already.
bool start_count();
// Called on all ranks of `comm`, or with nullptr for `traffic` on any: then the count is
// dropped. Returns MPI's status.
int end_count(MPI_Comm comm, Traffic* traffic);

}  // namespace dist::watch
