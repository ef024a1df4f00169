// Whether NCCL can carry messages between these ranks, which needs one GPU per rank.
#pragma once

#include "common/communicator.hpp"
#include "common/device.hpp"

#include <string>

namespace dist {

// Returns a sentence that says why the ranks of `comm` cannot use NCCL together; empty if they
// can. Called on all ranks; the result is empty on all ranks or on none.
//
// Two ranks on one GPU are refused here, because NCCL would refuse them later, while it starts
// ("Duplicate GPU detected"). NCCL 2.30 and newer allow them in an experimental mode, if the
// environment contains NCCL_MULTI_RANK_GPU_ENABLE=1.
std::string why_no_nccl(const Communicator& comm, Device device);

}  // namespace dist
