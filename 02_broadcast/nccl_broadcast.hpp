// NCCL, whose unique id reaches all ranks by our own broadcast, and its broadcast.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/communicator.hpp"
#include "common/tensor.hpp"

namespace dist {

// Called on all ranks of `comm`, each with its own GPU. Rank 0 creates the id and lesson 2's
// tree delivers it, so neither a port nor a rendezvous file is needed.
NcclCommunicator connect_nccl(const Communicator& comm, Device device);

// Returns a tensor in registered memory (NcclCommunicator::allocate), which peers can access
// without a copy, in sums and all-gathers, if the hardware allows. One rank may call it alone;
// contents are undefined.
Tensor allocate_nccl(NcclCommunicator& nccl, Shape shape);

// Sends the root's `tensor` to all ranks, in place. Called on all ranks; queued on `stream`.
void broadcast_nccl(NcclCommunicator& nccl, const Tensor& tensor, int root,
                    const Stream& stream);

}  // namespace dist
