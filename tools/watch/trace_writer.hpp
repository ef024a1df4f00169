// Writes the trace file in Chrome's trace-event format, which Perfetto (ui.perfetto.dev) opens.
#pragma once

#include "tools/watch/rank_board.hpp"

#include <string>
#include <vector>

namespace dist::watch {

// Called on all ranks once none of them records events any more. Rank 0 writes `file` and
// reports on standard error what did not fit.
void write_trace_of_all_ranks(const std::string& file, const RankBoard& mine);

// Called on one rank of a host, while the others may be running or stopped. Sends no message.
// Writes the host's part to `file`, or to "file.rankR" on a host without rank 0. Returns the
// name of the file.
std::string write_trace_of_host(const std::string& file, const std::vector<RankBoard*>& boards);

// Called on all ranks. Returns what this rank must add to now_ns() to get rank 0's time.
std::int64_t clock_offset_to_rank_0();

}  // namespace dist::watch
