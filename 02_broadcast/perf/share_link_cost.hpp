// Gives all ranks the same alpha and beta.
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "02_broadcast/binomial_tree.hpp"
#include "common/communicator.hpp"

#include <optional>

namespace dist {

// Returns rank 0's `mine` on all ranks, or nullopt if rank 0 has no measurement, or one from
// one host although the ranks are now on several, or the reverse. Called on all ranks. Ranks on
// different hosts or in different folders may have different measurements. If they used their
// own, they could choose different algorithms, and would not expect each other's messages.
inline std::optional<LinkCost> share_link_cost(const Communicator& comm,
                                               const std::optional<LinkCost>& mine) {
  const auto share = [&](auto& value) {
    broadcast_tree<char>(comm, {reinterpret_cast<char*>(&value), sizeof(value)}, /*root=*/0);
  };
  LinkCost link = mine.value_or(LinkCost{});
  // A message between hosts costs many times as much as one inside a host.
  const bool between_hosts = comm.local_size() < comm.size();
  bool usable = mine && mine->between_hosts == between_hosts;
  share(usable);
  if (!usable) return std::nullopt;
  share(link.alpha_s);
  share(link.beta_s_per_byte);
  share(link.r2);
  share(link.ranks);
  share(link.device);
  share(link.between_hosts);
  for (auto* curve : {&link.message, &link.exchange}) {
    std::size_t points = curve->size();
    share(points);
    curve->resize(points);
    for (CostPoint& point : *curve) share(point);
  }
  return link;
}

}  // namespace dist
