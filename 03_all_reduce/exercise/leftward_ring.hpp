// Advanced exercise: the ring all-reduce in the opposite direction.
// Check it with ./learn check 3; ./learn hint 3 prints the next hint.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"
#include "tools/exercises/not_started.hpp"

#include <span>
#include <vector>

namespace dist::exercise {

// Called on all ranks with the same number of elements, which may be 0. Afterwards `data` holds
// the sum over all ranks, with the same bits on every rank.
//
// All messages go to comm.left() and come from comm.right(). ring_reduce_scatter.hpp defines
// the chunks. As in the lesson's ring, rank r finishes chunk r: it adds its own share last, to
// the sum of all other shares, which arrives in one message.
//
// Target: 2 (comm.size() - 1) messages per rank, each of one chunk, for any number of ranks,
// including 1. The ring must not depend on MPI's buffering: use send_recv (01, send_recv.hpp).
inline void leftward_ring(const Communicator& comm, std::span<float> data) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
