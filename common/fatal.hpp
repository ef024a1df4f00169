// The edge of the process: what an uncaught exception becomes.
#pragma once

namespace dist {

// Called once by MpiEnvironment, or first in main by a program without MPI. From then on an
// uncaught exception prints "[rank r] fatal: <what>" on standard error and ends all ranks with
// status 1. Also keeps the numbers of standard input, output and error from being given to
// other files where they are closed.
void install_fatal_handler();

// 0 until it is set. May be read in a signal handler.
void set_rank_in_reports(int rank);
int rank_in_reports();

}  // namespace dist
