// Exercise: average with NCCL while the computation continues. Build it with emulated CUDA:
//   cmake --preset emulated
// Check it with ./learn check 5; ./learn hint 5 prints the next hint.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/check_cuda.hpp"
#include "common/stream.hpp"
#include "common/tensor.hpp"
#include "tools/exercises/not_started.hpp"

namespace dist::exercise {

// Called on all ranks with the same length. `tensor` is on this rank's GPU. Work already queued
// on `compute` writes the tensor, and work that the caller queues on `compute` afterwards reads
// it. Between the two, replace the tensor's values with the average over all ranks.
//
// Run the all-reduce on `communication`, so that it does not occupy `compute`. This function
// only queues work and must not wait for the GPU.
//
// Use ncclAllReduce(from, to, count, ncclFloat, op, nccl.get(), stream.get()) in
// NCCL_CHECK(nccl, ...), where `from` and `to` may be the same address and op is one of
// ncclSum, ncclProd, ncclMin, ncclMax and ncclAvg; and Stream's record_event() and wait(event)
// (common/stream.hpp), or CUDA's own calls in CUDA_CHECK(...).
inline void nccl_average(NcclCommunicator& nccl, const Tensor& tensor, const Stream& compute,
                         const Stream& communication) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
