// Exercise: average with NCCL while the computation continues. It is built with emulated CUDA:
//   cmake --preset emulated
// Check it with ./learn check 5. Each ./learn hint 5 gives one more hint.
#pragma once

#include "01_send_recv/gpu/check_nccl.hpp"
#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/check_cuda.hpp"
#include "common/stream.hpp"
#include "common/tensor.hpp"
#include "tools/exercises/not_started.hpp"

namespace dist::exercise {

// Called on all ranks with the same length. `tensor` is on this rank's GPU. Work already queued
// on `compute` writes it, and work that the caller queues on `compute` afterwards reads it. In
// between, it becomes the average over all ranks, in place.
//
// Run the all-reduce on `communication`, so that it does not occupy `compute`. The host only
// queues work here and must not wait for the GPU.
//
// Use ncclAllReduce(from, to, count, ncclFloat, op, nccl.get(), stream.get()) in
// NCCL_CHECK(nccl, ...), and Stream's record_event() and wait(event) (common/stream.hpp), or
// CUDA's own calls in CUDA_CHECK(...).
inline void nccl_average(NcclCommunicator& nccl, const Tensor& tensor, const Stream& compute,
                         const Stream& communication) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
