// The watch's lifetime, from before MPI_Init until after MPI_Finalize.
#pragma once

#include <string>

namespace dist::watch {

// Called in a job that is about to end without MPI_Finalize. Writes the trace of this host and
// returns the name of its file, or "" if no trace is recorded.
std::string keep_trace();

}  // namespace dist::watch
