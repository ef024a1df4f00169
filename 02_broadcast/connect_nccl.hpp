// Sets up NCCL, whose unique id reaches all ranks through our own broadcast.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/communicator.hpp"

namespace dist {

// Called on all ranks of `comm`, each with its own GPU. Rank 0 creates the id and lesson 2's
// tree delivers it, so neither a port nor a rendezvous file is needed.
NcclCommunicator connect_nccl(const Communicator& comm, Device device);

}  // namespace dist
