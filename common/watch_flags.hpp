// The flags of the watch, which every program has. The watch needs them before MPI starts, but
// what is wrong with them is said only once all ranks can agree on it, as for all other flags.
#pragma once

#include "common/command_line.hpp"
#include "common/watch.hpp"

namespace dist {

void declare_watch_flags(CommandLine& flags, WatchFlags& into);

// Called before MPI starts. If one of these flags is malformed, others may count as not given,
// too; flags that are not the watch's are left alone.
WatchFlags read_watch_flags(int argc, char** argv);

}  // namespace dist
