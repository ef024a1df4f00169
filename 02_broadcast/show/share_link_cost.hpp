// Gives all ranks the same alpha and beta.
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "common/communicator.hpp"

#include <optional>

namespace dist {

// Returns rank 0's `mine` on all ranks, or nullopt if rank 0 has no measurement, or one from
// one host although the ranks are now on several, or the reverse. The other ranks' `mine` is
// ignored. Called on all ranks. Ranks on different hosts or in different
// folders may have different measurements. Ranks that chose different algorithms because of
// this would not expect each other's messages.
std::optional<LinkCost> share_link_cost(const Communicator& comm,
                                        const std::optional<LinkCost>& mine);

}  // namespace dist
