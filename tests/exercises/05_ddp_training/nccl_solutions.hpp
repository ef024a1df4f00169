// Solutions to lesson 5's exercise with NCCL, which is in the emulated build only.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/check_cuda.hpp"
#include "common/stream.hpp"
#include "common/tensor.hpp"

namespace dist::exercise {

// == nccl_average/reference
// Lesson 5's NcclProcessGroup::all_reduce and its Work's wait, in one function.
inline void nccl_average_reference(NcclCommunicator& nccl, const Tensor& tensor,
                                   const Stream& compute, const Stream& communication) {
  communication.wait(compute.record_event());
  NCCL_CHECK(nccl, ncclAllReduce(tensor.data(), tensor.data(), tensor.numel(), ncclFloat,
                                 ncclAvg, nccl.get(), communication.get()));
  compute.wait(communication.record_event());
}

}  // namespace dist::exercise
