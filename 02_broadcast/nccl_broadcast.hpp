// The same in NCCL, and how NCCL comes to life: its unique id travels by our own broadcast.
#pragma once

#include "common/communicator.hpp"
#include "common/nccl_communicator.hpp"
#include "common/tensor.hpp"

namespace dist {

// Called on all ranks of `comm`, each with a GPU of its own. Rank 0 makes the id, lesson 02's
// tree carries it: no port, no rendezvous file.
NcclCommunicator connect_nccl(const Communicator& comm, Device device);

// Root's `tensor` to all ranks, in place. Called on all ranks; queued on `stream`.
void broadcast_nccl(NcclCommunicator& nccl, const Tensor& tensor, int root,
                    const Stream& stream);

}  // namespace dist
