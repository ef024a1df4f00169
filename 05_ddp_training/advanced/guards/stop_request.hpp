// What this file adds: a signal that asks the run to stop, as a scheduler sends before it takes
// the machine away: SIGUSR1, which mpirun passes on to every rank, or SIGTERM to one rank.
// (SIGTERM to mpirun itself ends the job at once, whatever the ranks want.)
//
// The signals are blocked, and the run asks whether one is pending. No handler ever runs: it
// could interrupt a library that has pointed the stack register at the heap for a moment, as
// oneDNN's sgemm does (oneDNN#4845), and what the kernel then pushes for it overwrites memory.
// A second signal changes nothing either, not even while the checkpoint is being written.
#pragma once

namespace dist {

// The exit status of a run that stopped so, with its checkpoint written (EX_TEMPFAIL of
// sysexits.h: "the user is invited to retry").
inline constexpr int kStoppedOnRequest = 75;

// Called first in main: threads that start later inherit it. The signals wait from here on.
void hold_stop_signals();
// For a run that nobody could resume: from here on they end it as they end any program, at once
// if one is waiting.
void release_stop_signals();

// Whether this process was asked. The ranks are not asked at the same moment, if at all: they
// must agree on a step before one of them leaves.
bool stop_signal_is_pending();

}  // namespace dist
