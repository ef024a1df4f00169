// Whether NCCL can carry messages between these ranks: it wants a GPU for every one of them.
#pragma once

#include "common/communicator.hpp"
#include "common/device.hpp"

#include <string>

namespace dist {

// Why the ranks of `comm` cannot use NCCL together, as a sentence; empty if they can. Called on
// all ranks; empty on all or on none.
//
// Two ranks on one GPU are refused, as NCCL would refuse them in the middle of its start
// ("Duplicate GPU detected"). From NCCL 2.30 on it allows them, if NCCL_MULTI_RANK_GPU_ENABLE=1
// stands in the environment: an experimental mode, so it must be asked for in this way.
std::string why_no_nccl(const Communicator& comm, Device device);

}  // namespace dist
