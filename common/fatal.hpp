// How uncaught exceptions are handled.
#pragma once

namespace dist {

// Called once by MpiEnvironment, or at the beginning of main in a program without MPI. From
// then on, an uncaught exception prints "[rank r] fatal: <what>" on standard error and ends all
// ranks with status 1. Without MPI, r is 0. No file gets a closed standard stream's descriptor.
void install_fatal_handler();

}  // namespace dist
