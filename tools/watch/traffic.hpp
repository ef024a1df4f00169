// Implements count_traffic of common/watch.hpp.
#pragma once

#include "common/watch.hpp"

#include <mpi.h>

#include <string_view>

namespace dist::watch {

// Returns false if a count is already running.
bool start_count(std::string_view subject);
// Called on all ranks of `comm`. A call with nullptr for `traffic` only discards the count, and
// a single rank may make it. Returns MPI's status.
int end_count(MPI_Comm comm, Traffic* traffic);

}  // namespace dist::watch
