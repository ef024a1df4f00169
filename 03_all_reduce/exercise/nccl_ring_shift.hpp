// Exercise, in NCCL: every rank's tensor moves one seat to the right, from GPU to GPU.
// Check it with ./learn check 3; ./learn hint 3 helps, a little more each time. It runs on
// emulated GPUs: none is needed.
#pragma once

#include "01_send_recv/gpu/check_nccl.hpp"
#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/stream.hpp"
#include "common/tensor.hpp"
#include "tools/exercises/not_started.hpp"

namespace dist::exercise {

// Called on all ranks, with tensors of one length, which may be 0. When `stream` has come so
// far, `in` holds what `out` of the rank on the left held when `stream` came to the shift, and
// `out` is what it was. Rank 0's left is the last rank; a single rank is its own neighbour on
// both sides.
//
// The call only queues work: it returns although the work queued on `stream` before it is not
// done, and so waits neither for the stream nor for another rank. Another shift may be queued
// right behind it.
//
// Target: one ncclSend and one ncclRecv, of ncclFloat, on stream.get() and nccl.get(). Put
// every call of NCCL's that returns a status in NCCL_CHECK(nccl, ...): the communicator is
// non-blocking, and must not be asked for anything new before the last call has gone through.
inline void nccl_ring_shift(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                            const Stream& stream) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
