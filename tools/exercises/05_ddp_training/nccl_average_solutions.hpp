// Known solutions of the exercise nccl_average: the reference, and others, right and wrong.
// More are in nccl_average_changes.toml.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/check_cuda.hpp"
#include "common/stream.hpp"
#include "common/tensor.hpp"

namespace dist::exercise {

// == reference | done
// Lesson 5's NcclProcessGroup::all_reduce and its Work's wait, in one function.
inline void nccl_average_reference(NcclCommunicator& nccl, const Tensor& tensor,
                                   const Stream& compute, const Stream& communication) {
  communication.wait(compute.record_event());
  NCCL_CHECK(nccl, ncclAllReduce(tensor.data(), tensor.data(), tensor.numel(), ncclFloat,
                                 ncclAvg, nccl.get(), communication.get()));
  compute.wait(communication.record_event());
}

// == cuda-event | done
// Calls CUDA directly, and uses one event for both waits.
inline void nccl_average_cuda_event(NcclCommunicator& nccl, const Tensor& tensor,
                                    const Stream& compute, const Stream& communication) {
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreate(&event));
  CUDA_CHECK(cudaEventRecord(event, compute.get()));
  CUDA_CHECK(cudaStreamWaitEvent(communication.get(), event, 0));
  NCCL_CHECK(nccl, ncclAllReduce(tensor.data(), tensor.data(), tensor.numel(), ncclFloat,
                                 ncclAvg, nccl.get(), communication.get()));
  CUDA_CHECK(cudaEventRecord(event, communication.get()));
  CUDA_CHECK(cudaStreamWaitEvent(compute.get(), event, 0));
  CUDA_CHECK(cudaEventDestroy(event));
}

// == records-early | before-compute | after ncclAllReduce
// Records the event before the all-reduce is queued.
inline void nccl_average_records_early(NcclCommunicator& nccl, const Tensor& tensor,
                                       const Stream& compute, const Stream& communication) {
  communication.wait(compute.record_event());
  const Event done = communication.record_event();
  NCCL_CHECK(nccl, ncclAllReduce(tensor.data(), tensor.data(), tensor.numel(), ncclFloat,
                                 ncclAvg, nccl.get(), communication.get()));
  compute.wait(done);
}

// == compute-stream | communication-stream | nothing can be computed at the same time
// Runs on the compute stream.
inline void nccl_average_compute_stream(NcclCommunicator& nccl, const Tensor& tensor,
                                        const Stream& compute, const Stream& communication) {
  NCCL_CHECK(nccl, ncclAllReduce(tensor.data(), tensor.data(), tensor.numel(), ncclFloat,
                                 ncclAvg, nccl.get(), compute.get()));
}

}  // namespace dist::exercise
