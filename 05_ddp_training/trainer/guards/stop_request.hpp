// What this file adds: a way to stop a run with a signal, such as the one that a scheduler
// sends before it takes the machine away: SIGUSR1, which mpirun forwards to every rank, or
// SIGTERM sent to one rank. (SIGTERM sent to mpirun itself ends the job at once, and the ranks
// cannot prevent this.)
//
// The signals are blocked, and the run asks whether one is pending. No handler ever runs: a
// handler could interrupt a library that has temporarily pointed the stack register at the
// heap, as oneDNN's sgemm does (oneDNN#4845), and the signal frame would then overwrite memory.
// A second signal has no effect, even while the checkpoint is being written.
#pragma once

namespace dist {

// The exit status of a run that stopped on request and wrote its checkpoint (EX_TEMPFAIL in
// sysexits.h: "the user is invited to retry").
inline constexpr int kStoppedOnRequest = 75;

// Blocks the signals. Called first in main, because threads created later inherit the mask.
void hold_stop_signals();
// Called if this run cannot be resumed later: from then on these signals end it as they end any
// program, immediately if one is already pending.
void release_stop_signals();

// Whether this process was asked to stop. The signal may reach the ranks at different times, or
// only some of them, so they must agree on the step after which all of them stop.
bool stop_signal_is_pending();

}  // namespace dist
