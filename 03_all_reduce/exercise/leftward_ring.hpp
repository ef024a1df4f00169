// Exercise, advanced: the ring all-reduce that runs the other way.
// Check it with ./learn check 3; ./learn hint 3 helps, a little more each time.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"
#include "tools/exercises/not_started.hpp"

#include <span>
#include <vector>

namespace dist::exercise {

// Called on all ranks with the same number of elements, which may be 0. Afterwards `data` is
// the sum over all ranks, the same bits on all of them.
//
// All messages go to comm.left() and come from comm.right(). What chunk c is: see
// ring_reduce_scatter.hpp. As in the lesson's ring, chunk r is finished by rank r: rank r's own
// share of it is added last, to the sum of all the others', which has come in one message.
//
// Target: 2 (comm.size() - 1) messages per rank, each of one chunk. Right for any number of
// ranks (1 too), with no help from MPI's own copies: use send_recv (01, send_recv.hpp).
inline void leftward_ring(const Communicator& comm, std::span<float> data) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
