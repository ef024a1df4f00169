// What this file adds: are the replicas still one model? A hash of every parameter, compared
// over the ranks. A flipped bit of memory, or a rank that took another step, shows in no loss.
#pragma once

#include "05_ddp_training/model/mlp.hpp"
#include "common/communicator.hpp"

#include <span>
#include <string>

namespace dist {

// Called on all ranks. Empty if every parameter's bits are the same on all ranks; else which is
// the first that is not and whose it is, such as "2.weight of rank 3", the same on all. The
// rank is one that most others disagree with; where there is no majority all are named.
std::string first_difference(const Communicator& comm, std::span<const Parameter> parameters,
                             const Stream& stream);

}  // namespace dist
