// What this file adds: --explain, one training step on two ranks, small enough for a reader to
// check by hand.
// Builds on: the classes of an ordinary training run, which take the step.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"
#include "common/program.hpp"

namespace dist {

// Called on all ranks, of which there must be two. Trains a network of twelve parameters for
// one step over `group`, prints what every part did, and compares the result with that of one
// process that has the whole batch. Returns the exit status: 0 if both results are bitwise
// equal.
int explain(const Program& program, ProcessGroup& group);

}  // namespace dist
