// NCCL's broadcast.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/tensor.hpp"

namespace dist {

// Sends the root's `tensor` to all ranks, in place. Called on all ranks; the work is queued on
// `stream`.
void broadcast_nccl(NcclCommunicator& nccl, const Tensor& tensor, int root,
                    const Stream& stream);

}  // namespace dist
