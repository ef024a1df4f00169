// The watch's lifetime, from before MPI_Init until after MPI_Finalize.
#pragma once

#include <string>

namespace dist::watch {

// Called before MPI starts. Reads the flags and makes this rank's board. Sends no message.
void begin_session(int argc, char** argv);
// Called when MPI_Init has returned; collective if a trace is recorded on several hosts.
void session_started();
// Called on all ranks before MPI_Finalize. Gathers and writes the trace.
void finish_recording();
// As finish_recording, but only if a trace is recorded.
void finish_trace();
// Called when MPI_Finalize has returned. Ends the watch and releases its memory.
void end_session();

// common/watch.hpp describes these.
void set_starting(bool on);
double timeout_s();
void flags_are_read(bool accepted);
std::string keep_trace();

}  // namespace dist::watch
