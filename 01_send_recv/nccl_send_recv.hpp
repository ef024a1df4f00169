// The same in NCCL: messages between GPUs, without a stop in host memory.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/communicator.hpp"
#include "common/tensor.hpp"

namespace dist {

// Called on all ranks of `comm`, each with a GPU of its own. Rank 0 makes NCCL's unique id and
// sends it to the others one by one; lesson 2 has a better way.
NcclCommunicator connect_nccl_by_messages(const Communicator& comm, Device device);

// Sends `out` to rank `dest` and receives `in` from rank `source` at once. Called on all ranks;
// queued on `stream`.
void send_recv_nccl(NcclCommunicator& nccl, const Tensor& out, int dest, const Tensor& in,
                    int source, const Stream& stream);

}  // namespace dist
