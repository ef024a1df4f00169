// Whether collectives get a thread of their own. Overlap needs something that is free while the
// computation runs: where the ranks of a host use all of its cores, a further thread only takes
// time from them.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"
#include "common/communicator.hpp"

#include <optional>
#include <string>

namespace dist {

struct OverlapChoice {
  bool overlap;
  std::string reason;  // for the reader, such as "no core is free for it: 2 ranks on 2 cores"
};

// Called on all ranks, the same on all. `request` unset: where each rank has more cores than
// the `threads` it computes with.
OverlapChoice choose_overlap(std::optional<bool> request, Backend backend,
                             const Communicator& comm, int threads);

}  // namespace dist
