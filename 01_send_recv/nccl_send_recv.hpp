// send_recv with NCCL: GPU-to-GPU messages that bypass host memory.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/communicator.hpp"
#include "common/tensor.hpp"

namespace dist {

// Called on all ranks of `comm`, each with a GPU of its own. Rank 0 makes NCCL's unique id and
// sends it to the other ranks one by one. Lesson 2 broadcasts the id instead.
NcclCommunicator connect_nccl_by_messages(const Communicator& comm, Device device);

// Sends `out` to rank `dest` and at the same time receives `in` from rank `source`. Called on
// all ranks. The work is queued on `stream`.
void send_recv_nccl(NcclCommunicator& nccl, const Tensor& out, int dest, const Tensor& in,
                    int source, const Stream& stream);

}  // namespace dist
