// The edge of the process: what an uncaught exception becomes.
#pragma once

namespace dist {

// Called once by MpiEnvironment, or first in main by a program without MPI. From then on an
// uncaught exception prints
// "[rank r] fatal: <what>" on standard error and ends all ranks with status 1.
void install_fatal_handler(int rank);

// The rank given there; 0 before. May be called from a signal handler.
int rank_in_reports();

}  // namespace dist
