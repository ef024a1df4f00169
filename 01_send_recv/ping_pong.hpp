// How long a message takes: the two numbers, latency and bandwidth, that decide everything
// later.
#pragma once

#include "common/communicator.hpp"
#include "common/tensor.hpp"

#include <cstddef>

namespace dist {

struct PingPongTimes {
  double one_way_us = 0;      // half of a round trip: send there, send back
  double combined_us = 0;     // both ranks send and receive at once, with send_recv
  double nonblocking_us = 0;  // the same with isend and irecv
  bool correct = true;        // every element arrived, in both directions
};

// Called on all ranks, of which there are at least 2: ranks 0 and 1 exchange `tensor` (the same
// length on both, its contents are overwritten), the others wait without using their cores.
// A tensor on a GPU is staged through the host for every message. The result is on rank 0.
PingPongTimes ping_pong(const Communicator& comm, const Tensor& tensor, const Stream& stream);

}  // namespace dist
