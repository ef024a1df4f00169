// Writes the trace file in Chrome's trace-event format, which Perfetto (ui.perfetto.dev) opens.
#pragma once

#include "tools/watch/observe/host_boards.hpp"

#include <string>

namespace dist::watch {

// Called on all ranks once none of them records events any more. Rank 0 writes the file and
// reports on standard error what did not fit. Clears host.trace, so no later call writes one.
void write_trace_of_all_ranks(HostBoards& host);

// Called on one rank of a host, while the others may be running or stopped. Sends no message.
// Writes the host's part to the file, or to "file.rankR" on a host without rank 0. Returns the
// name of the file, or "" if no trace is recorded.
std::string write_trace_of_host(const HostBoards& host);

// Called on all ranks. Notes on the boards what to add to now_ns() to get rank 0's time.
void align_clocks(const HostBoards& host);

}  // namespace dist::watch
