// Exercise: an average by NCCL beside the computation. Built where CUDA is emulated:
//   cmake --preset emulated
// Check your code with ./learn check 5. For hints, run ./learn hint 5 one or more times.
#pragma once

#include "01_send_recv/gpu/check_nccl.hpp"
#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/check_cuda.hpp"
#include "common/stream.hpp"
#include "common/tensor.hpp"
#include "tools/exercises/not_started.hpp"

namespace dist::exercise {

// Called on all ranks with the same length. `tensor` lies on this rank's GPU. Work that is
// queued on `compute` writes it, and work that the caller queues on `compute` afterwards reads
// it: between the two it becomes the average over all ranks, in place.
//
// The all-reduce runs on `communication`, so that whatever else is queued on `compute` need not
// be in its stream's way; and the host only queues: nothing here waits for the GPU.
//
// Use ncclAllReduce(from, to, count, ncclFloat, op, nccl.get(), stream.get()) in
// NCCL_CHECK(nccl, ...), and Stream's record_event() and wait(event) (common/stream.hpp), or
// CUDA's own calls in CUDA_CHECK(...).
inline void nccl_average(NcclCommunicator& nccl, const Tensor& tensor, const Stream& compute,
                         const Stream& communication) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
