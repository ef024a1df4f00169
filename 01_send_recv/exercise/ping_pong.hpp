// Exercise: how long does one message take?
// Check it with ./learn check 1; ./learn hint 1 helps, a little more each time.
#pragma once

#include "01_send_recv/send_recv.hpp"  // send, recv; std::vector<char> data is sent by send<char>
#include "tools/exercises/not_started.hpp"

#include <chrono>
#include <cstddef>
#include <vector>

namespace dist::exercise {

// Called on all ranks with the same numbers; `repeats` is at least 1, `bytes` may be 0. A
// message of `bytes` bytes, whatever they are, goes from rank 0 to rank 1, and when it has come
// an answer of the same size goes back, `repeats` times in all. Ranks above 1 do nothing; on
// one rank nobody does.
//
// On rank 0 returns the seconds of ONE message ONE way, on average over the whole exchange:
// from before the first send to after the last answer, divided by the number of messages. On
// all other ranks, and where rank 0 is alone, returns 0.
//
// Target: exactly `repeats` messages there and as many back, so no warm-up and no barrier: the
// check counts them. It also measures the call's time by itself and compares.
inline double ping_pong(const Communicator& comm, std::size_t bytes, int repeats) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
