// Exercise: how long does one message take?
// Check it with ./learn check 1; ./learn hint 1 prints the next hint.
#pragma once

#include "01_send_recv/send_recv.hpp"  // send, recv; send<char> takes a vector<char>
#include "tools/exercises/not_started.hpp"

#include <chrono>
#include <cstddef>
#include <vector>

namespace dist::exercise {

// Called on all ranks with the same arguments. `repeats` is at least 1, and `bytes` may be 0. A
// message of `bytes` bytes with any contents goes from rank 0 to rank 1. When it has arrived,
// an answer of the same size goes back. This happens `repeats` times. Ranks above 1 do nothing.
// If rank 0 is alone, it does nothing either.
//
// On rank 0, returns the time in seconds that ONE message takes ONE way, averaged over the
// whole exchange: the time from before the first send until after the last answer, divided by
// the number of messages. On all other ranks, and if rank 0 is alone, returns 0.
//
// Target: exactly `repeats` messages in each direction, without warm-up or barrier. The check
// counts messages, and compares your result with its own measurement of the call.
inline double ping_pong(const Communicator& comm, std::size_t bytes, int repeats) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
