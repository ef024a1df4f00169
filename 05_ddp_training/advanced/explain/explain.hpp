// What this file adds: --explain: one step of two ranks in numbers that a reader checks by
// hand. Builds on: everything that a training run is made of. The step is taken by the same
// classes, and every number printed is read from them.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"
#include "common/console.hpp"

#include <string>

namespace dist {

// Called on all ranks, of which there must be two. Trains a net of twelve parameters for one
// step over `group`, prints what every part of it did, and compares the result with that of one
// process that has the whole batch. `device_reason` is for the reader. Returns the exit status:
// 0 if they are the same to the bit.
int explain(const Communicator& comm, const Console& console, ProcessGroup& group,
            const Stream& stream, const std::string& device_reason);

}  // namespace dist
