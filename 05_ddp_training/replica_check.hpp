// Are the replicas still one model? A hash of every parameter, compared over the ranks.
#pragma once

#include "05_ddp_training/mlp.hpp"
#include "common/communicator.hpp"

#include <span>
#include <string>

namespace dist {

// Called on all ranks. The name of the first parameter whose bits are not the same on all
// ranks, the same answer on all; empty if the replicas are identical.
std::string first_difference(const Communicator& comm, std::span<const Parameter> parameters,
                             const Stream& stream);

}  // namespace dist
