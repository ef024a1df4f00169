// The same broadcast in NCCL.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/tensor.hpp"

namespace dist {

// Root's `tensor` to all ranks, in place. Called on all ranks; queued on `stream`.
void broadcast_nccl(NcclCommunicator& nccl, const Tensor& tensor, int root,
                    const Stream& stream);

}  // namespace dist
