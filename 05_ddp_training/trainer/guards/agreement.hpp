// What this file adds: a check that all ranks take part in the same run. A host with
// yesterday's program, a different learning rate or different data would otherwise go
// unnoticed, because the run would still look like training.
#pragma once

#include "common/command_line.hpp"
#include "common/communicator.hpp"

#include <cstdint>
#include <vector>

namespace dist {

// Called on all ranks, before anything that depends on flags. `values` contains the values of
// the command line and fingerprints of this rank's data. Throws Error on all ranks, naming the
// first value that differs and two ranks that disagree: "--lr: 0.001 on rank 0, but 0.01 on
// rank 2".
void require_agreement(const Communicator& comm, std::vector<CommandLine::Value> values);

}  // namespace dist
