// Gives all ranks the same alpha and beta.
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "common/communicator.hpp"

#include <optional>

namespace dist {

// Returns rank 0's `mine` on all ranks, or nothing on all ranks if rank 0 has none; the others'
// `mine` is ignored. Called on all ranks. Measurements differ between hosts and folders, and
// ranks that chose algorithms from different numbers would not expect each other's messages.
std::optional<LinkCost> share_link_cost(const Communicator& comm,
                                        const std::optional<LinkCost>& mine);

}  // namespace dist
