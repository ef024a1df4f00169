// What this file adds: a way to stop a run by a signal, such as the one that a scheduler sends
// before it takes the machine away: SIGUSR1, which mpirun passes on to every rank, or SIGTERM
// to one rank. (SIGTERM to mpirun itself ends the job at once, and the ranks cannot prevent
// it.)
//
// The signals are blocked, and the run asks whether one is pending. No handler ever runs. It
// could interrupt a library that has temporarily pointed the stack register at the heap, as
// oneDNN's sgemm does (oneDNN#4845), and the signal frame would then overwrite memory. A second
// signal has no effect, even while the checkpoint is being written.
#pragma once

namespace dist {

// The exit status of a run that stopped on request and wrote its checkpoint (EX_TEMPFAIL of
// sysexits.h: "the user is invited to retry").
inline constexpr int kStoppedOnRequest = 75;

// Makes the signals wait. Called first in main, because later threads inherit the signal mask.
void hold_stop_signals();
// For a run that could not be resumed: from here on these signals end it as they end any
// program, at once if one is already pending.
void release_stop_signals();

// Whether this process was asked to stop. The signal may reach the ranks at different times, or
// only some of them, so they must agree on a step before any of them leaves.
bool stop_signal_is_pending();

}  // namespace dist
