// Exercise: the second half of the ring all-reduce.
// Check it with ./learn check 3; ./learn hint 3 prints the next hint.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"
#include "tools/exercises/not_started.hpp"

#include <span>

namespace dist::exercise {

// Called on all ranks with the same number of elements, which may be 0. Before the call, chunk
// r of rank r's data is finished (ring_reduce_scatter.hpp explains chunks), and the other
// chunks may hold any values. Afterwards all ranks have all finished chunks.
//
// Target: comm.size() - 1 messages per rank, each of one chunk, all sent to comm.right() with
// lesson 1's send_recv. (Empty chunks may be left out.)
inline void ring_all_gather(const Communicator& comm, std::span<float> data) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
