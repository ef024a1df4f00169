// Whether collectives get their own thread. Overlap needs a core that is free during the
// computation. If the ranks of a host use all of its cores, another thread only slows them
// down.
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

// Called on all ranks, with the same result on all. If `request` is unset, collectives overlap
// if each rank has more cores than the `threads` it computes with.
OverlapChoice choose_overlap(std::optional<bool> request, Backend backend,
                             const Communicator& comm, int threads);

}  // namespace dist
