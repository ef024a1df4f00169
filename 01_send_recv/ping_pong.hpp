// Measures how long messages take between two ranks and around a ring.
#pragma once

#include "common/communicator.hpp"
#include "common/tensor.hpp"

#include <cstddef>

namespace dist {

struct PingPongTimes {
  double one_way_us = 0;      // half of a round trip (there and back)
  double combined_us = 0;     // both ranks send and receive at the same time, with send_recv
  double nonblocking_us = 0;  // the same with isend and irecv
  double ring_step_us = 0;    // all ranks at once: send to the right, receive from the left
  bool correct = true;        // whether every element arrived in both directions
};

// Called on all ranks (at least two) with tensors of the same length, which are overwritten.
// Ranks 0 and 1 exchange their tensors while the others wait without using their cores. Then
// all ranks pass their tensors to the right. A tensor on a GPU is staged through the host in
// every round unless MPI is CUDA-aware. Only rank 0 has the result.
PingPongTimes ping_pong(const Communicator& comm, const Tensor& tensor, const Stream& stream);

}  // namespace dist
