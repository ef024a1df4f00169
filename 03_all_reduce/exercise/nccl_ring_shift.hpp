// NCCL exercise: every rank's tensor moves one rank to the right, from GPU to GPU.
// Check it with ./learn check 3, on emulated GPUs; you need no real one.
// ./learn hint 3 prints the next hint.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/stream.hpp"
#include "common/tensor.hpp"
#include "tools/exercises/not_started.hpp"

namespace dist::exercise {

// Called on all ranks, with tensors of the same length, which may be 0. When `stream` reaches
// the shift, it copies the left neighbour's `out` to this rank's `in` and leaves `out`
// unchanged. Rank 0's left neighbour is the last rank; a single rank is its own neighbour on
// both sides.
//
// The call only queues work. It waits neither for earlier work on `stream` nor for other ranks,
// and a second shift may be queued right behind it.
//
// Target: one ncclSend and one ncclRecv of ncclFloat with nccl.get(), on stream.get(). Put
// every NCCL call that returns a status in NCCL_CHECK(nccl, ...), which turns an error into an
// exception and ends a call whose peer never arrives.
inline void nccl_ring_shift(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                            const Stream& stream) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
