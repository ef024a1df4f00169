// Decides whether collectives get their own thread. Overlap needs a core that is free during
// the computation. If the ranks on a host use all of its cores, another thread only slows them
// down.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"
#include "common/communicator.hpp"

#include <optional>
#include <string>

namespace dist {

struct OverlapChoice {
  bool overlap;
  std::string reason;  // for display, such as "no core is free for it: 2 ranks on 2 cores"
};

// Called on all ranks; all get the same result. If `request` is unset, collectives overlap only
// where each rank has more cores than the `threads` that it computes with.
OverlapChoice choose_overlap(std::optional<bool> request, Backend backend,
                             const Communicator& comm, int threads);

}  // namespace dist
