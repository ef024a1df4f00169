// What this file adds: a check that the replicas are still identical. It compares hashes of all
// parameters. The loss would not reveal a flipped bit or a rank that took a different step.
#pragma once

#include "05_ddp_training/model/module.hpp"
#include "common/communicator.hpp"

#include <span>
#include <string>

namespace dist {

// Called on all ranks. Returns an empty text if every parameter is bitwise equal on all ranks.
// Otherwise returns the first parameter that differs and the ranks that disagree with the
// majority (all ranks if there is no majority), for example "2.weight of rank 3". The result is
// the same on all ranks.
std::string first_difference(const Communicator& comm, std::span<const Parameter> parameters,
                             const Stream& stream);

// The same, as a sentence about a model that has been trained: what is wrong with the replicas,
// or an empty text. Equal bits are not enough, because NaN is equal to itself, bit for bit.
std::string wrong_replicas(const Communicator& comm, std::span<const Parameter> parameters,
                           const Stream& stream);

}  // namespace dist
