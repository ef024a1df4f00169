// Implements count_traffic of common/watch.hpp.
#pragma once

#include "common/watch.hpp"
#include "tools/watch/rank_board.hpp"

#include <mpi.h>

#include <string_view>

namespace dist::watch {

// Returns false if a count is already running.
bool start_count(std::string_view subject);
// Called on all ranks of `comm`. A call with nullptr for `traffic` only discards the count, and
// a single rank may make it. Returns MPI's status.
int end_count(MPI_Comm comm, Traffic* traffic);

// Called when an operation starts. Returns its count_id, or 0 if it is not counted.
std::uint64_t count_start(const Operation& operation);
void count_finish(const Operation& operation);

}  // namespace dist::watch
