// The clocks of several hosts, brought to that of rank 0's host.
#pragma once

#include <cstdint>

namespace dist::watch {

// Called on all ranks. What this rank must add to now_ns() to get rank 0's. The first rank of
// each other host asks rank 0 for the time again and again; the answer that came back soonest
// is the least wrong, by half its round trip at most.
std::int64_t clock_offset_to_rank_0();

}  // namespace dist::watch
