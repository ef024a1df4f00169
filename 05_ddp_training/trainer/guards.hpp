// What this file adds: protection against ranks of another run, and requests to stop.
#pragma once

#include "common/command_line.hpp"
#include "common/communicator.hpp"

#include <vector>

namespace dist {

// Called on all ranks, before anything that depends on flags: a host with yesterday's program,
// another learning rate or other data would otherwise go unnoticed. `values` are those of the
// command line, and hashes of this rank's data. Throws Error on all ranks, naming the first
// value and two ranks that differ: "--lr: 0.001 on rank 0, but 0.01 on rank 2".
void require_agreement(const Communicator& comm, std::vector<CommandLine::Value> values);

// A request to stop is a signal, such as the one that a scheduler sends before it takes the
// machine away: SIGUSR1, which mpirun forwards to every rank, or SIGTERM sent to one rank.
// (SIGTERM sent to mpirun itself ends the job at once, and the ranks cannot prevent this.)
//
// The signals are blocked, and the run asks whether one is pending. No handler ever runs: a
// handler could interrupt a library that has temporarily pointed the stack register at the
// heap, as oneDNN's sgemm does (oneDNN#4845), and the signal frame would then overwrite memory.
// A second signal has no effect, even while the checkpoint is being written.

// Blocks the signals. Called first in main, because threads created later inherit the mask.
void hold_stop_signals();
// Called if this run cannot be resumed later: from then on these signals end it as they end any
// program, immediately if one is already pending.
void release_stop_signals();
// Whether this rank was asked to stop. The signal may reach the ranks at different times, or
// only some of them, so Trainer sends it with the gradients, and all stop after the same step.
bool asked_to_stop();

// The exit status of a run that stopped on request and wrote its checkpoint (EX_TEMPFAIL).
inline constexpr int kStoppedOnRequest = 75;

}  // namespace dist
