// The watch, from before MPI_Init until after MPI_Finalize.
#pragma once

#include <string>

namespace dist::watch {

// Before MPI starts: reads the flags and makes this rank's board. Sends no message.
void begin_session(int argc, char** argv);
// When MPI_Init has returned. With a trace on several hosts it is collective.
void session_started();
// Before MPI_Finalize; collective. Gathers and writes the trace.
void finish_recording();
// When MPI_Finalize has returned. Ends the watch and gives its memory back.
void end_session();

// These are in common/watch.hpp.
void flags_are_read(bool accepted);
std::string keep_trace();

}  // namespace dist::watch
