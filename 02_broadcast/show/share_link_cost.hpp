// How all ranks come to the same alpha and beta.
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "common/communicator.hpp"

#include <optional>

namespace dist {

// Rank 0's `mine` on all ranks, or nothing on all if it has none; the others' `mine` does not
// count. Called on all ranks. Where ranks decide by what messages cost, each by its own
// numbers, one would send what no other expects: hosts may differ, and so may their folders.
std::optional<LinkCost> share_link_cost(const Communicator& comm,
                                        const std::optional<LinkCost>& mine);

}  // namespace dist
