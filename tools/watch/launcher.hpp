// What this file adds: an end for a launcher that cannot find its own.
//
// When the link between two hosts is gone, ranks that hang leave with a report, but mpirun
// waits for the answer of its daemon on the other side, which does not come before TCP gives
// up: a quarter of an hour in which the job looks alive.
#pragma once

#include <chrono>

namespace dist::watch {

// Starts a process that outlives this one. If Open MPI's launcher or daemon, which started this
// process, still runs after `patience`, it is killed (a daemon is asked before).
// Another parent (a debugger, a batch system) is left alone. Allocates no memory in the new
// process, so it may be called from any thread, whatever the others hold. Returns at once.
void end_launcher_after(std::chrono::milliseconds patience);

}  // namespace dist::watch
