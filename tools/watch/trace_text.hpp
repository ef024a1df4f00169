// What ranks recorded, as the text of a trace file.
#pragma once

#include "tools/watch/board.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dist::watch {

// What one rank recorded. Its events bring their names along: numbers of labels mean nothing on
// another rank.
struct RankTrace {
  int rank = 0;
  std::string host;
  std::uint64_t dropped = 0;
  std::int64_t clock_offset_ns = 0;  // has been added to its times
  std::vector<std::string> labels;
  std::vector<std::pair<int, std::string>> threads;  // place and name
  std::vector<PlainEvent> events;
};

// One process per rank, two rows per thread: its communication (a slice per MPI call, an arrow
// from each send to its receive) and its phases (CallScope). Format: "Trace Event Format",
// Google, 2016.
std::string text_of_trace(const std::vector<RankTrace>& traces);

}  // namespace dist::watch
