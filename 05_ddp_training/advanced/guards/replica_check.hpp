// What this file adds: a check that the replicas are still one model, by hashes of all
// parameters. The loss would not reveal a flipped bit, or a rank that took a different step.
#pragma once

#include "05_ddp_training/model/mlp.hpp"
#include "common/communicator.hpp"

#include <span>
#include <string>

namespace dist {

// Called on all ranks. Returns an empty text if every parameter is bitwise equal on all ranks,
// and otherwise the first parameter that differs and the ranks that disagree with the majority,
// such as "2.weight of rank 3"; without a majority, all ranks. The result is the same on all
// ranks.
std::string first_difference(const Communicator& comm, std::span<const Parameter> parameters,
                             const Stream& stream);

}  // namespace dist
