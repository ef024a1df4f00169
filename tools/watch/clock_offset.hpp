// Relates the clocks of several hosts to the clock of rank 0's host.
#pragma once

#include <cstdint>

namespace dist::watch {

// Called on all ranks. Returns what this rank must add to now_ns() to get rank 0's time. The
// first rank of each other host asks rank 0 for the time repeatedly. The fastest answer is the
// most accurate: its error is at most half the round trip.
std::int64_t clock_offset_to_rank_0();

}  // namespace dist::watch
