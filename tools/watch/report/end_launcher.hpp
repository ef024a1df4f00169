// Ends a launcher that cannot end on its own.
//
// When the link between two hosts is lost, hanging ranks exit with a report. However, mpirun
// then waits for its daemon on the other side until TCP gives up, so the job seems to run for
// another quarter of an hour. On a single host, Open MPI 4.1.4's mpirun sometimes deadlocks or
// crashes in PMIx_server_finalize (PMIx 4.2.2) after a rank has exited during MPI_Finalize.
#pragma once

#include <chrono>

namespace dist::watch {

// Starts a process that outlives this one. If the Open MPI launcher or daemon that started this
// process still runs after `patience`, the new process kills it. It leaves any other parent
// alone, such as a debugger or a batch system. Returns at once and allocates no memory, so any
// thread may call this, whatever locks other threads hold.
void end_launcher_after(std::chrono::milliseconds patience);

}  // namespace dist::watch
