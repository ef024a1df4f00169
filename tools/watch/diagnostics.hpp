// The spy from the flags to MPI_Finalize: --trace, --strict, --timeout.
#pragma once

#include "common/command_line.hpp"

#include <string>

namespace dist::diagnostics {

struct Options {
  std::string trace;  // file; empty: none
  bool strict = false;
  double timeout_s = 60;  // 0: no watch

  // Called on all ranks. `writes` is true on the rank that writes the trace and so checks that
  // it can.
  void declare(CommandLine& command_line, bool writes);
};

// Called on all ranks of MPI_COMM_WORLD, once, when all have agreed on the flags; collective.
void start(const Options& options);

// Called by MpiEnvironment on all ranks, before MPI_Finalize; collective. Gathers and writes
// the trace, ends the watch and gives its memory back.
void finish();

// What this host has recorded, to the trace file; for a job that is about to end without
// MPI_Finalize. Sends no message. Returns the file's name, empty without --trace.
std::string keep_trace();

}  // namespace dist::diagnostics
