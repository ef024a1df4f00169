// What this file adds: are all ranks in the same run? One host with yesterday's program,
// another learning rate or other data would train along, and the average of it all would look
// like training.
#pragma once

#include "common/command_line.hpp"
#include "common/communicator.hpp"

#include <cstdint>
#include <vector>

namespace dist {

// Called on all ranks, before anything that depends on flags. `values` are the command line's
// and this rank's data by their content. Throws Error on all ranks, naming the first thing that
// is not the same and who has what: "--lr: 0.001 on rank 0, but 0.01 on rank 2".
void require_agreement(const Communicator& comm, std::vector<CommandLine::Value> values);

}  // namespace dist
