// Turns the ranks' records into the text of a trace file.
#pragma once

#include "tools/watch/board.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dist::watch {

// What one rank recorded. It includes the names of the labels, because label numbers differ
// from rank to rank.
struct RankTrace {
  int rank = 0;
  std::string host;
  std::uint64_t dropped = 0;
  std::int64_t clock_offset_ns = 0;  // already added to the times
  std::vector<std::string> labels;
  std::vector<std::pair<int, std::string>> threads;  // number and name
  std::vector<PlainEvent> events;
};

// Writes one process per rank and two rows per thread: its communication (a slice per MPI call,
// and an arrow from each send to its receive) and its phases (CallScope). The format is "Trace
// Event Format", Google, 2016.
std::string text_of_trace(const std::vector<RankTrace>& traces);

}  // namespace dist::watch
