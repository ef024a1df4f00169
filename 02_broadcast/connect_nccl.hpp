// How NCCL comes to life: its unique id travels by our own broadcast.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/communicator.hpp"

namespace dist {

// Called on all ranks of `comm`, each with a GPU of its own. Rank 0 makes the id, lesson 02's
// tree carries it: no port, no rendezvous file.
NcclCommunicator connect_nccl(const Communicator& comm, Device device);

}  // namespace dist
