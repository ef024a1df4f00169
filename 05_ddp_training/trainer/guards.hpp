// What this file adds: what protects a run: ranks that are not in the same run, gradients that
// are not finite, replicas that diverge, and requests to stop.
// Builds on: the optimizer (skips steps with such gradients), replica_check.
#pragma once

#include "05_ddp_training/optimizer/optimizer.hpp"
#include "common/command_line.hpp"
#include "common/communicator.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace dist {

// Called on all ranks, before anything that depends on flags: a host with yesterday's program,
// another learning rate or other data would otherwise go unnoticed. `values` contains the
// values of the command line and fingerprints of this rank's data. Throws Error on all ranks,
// naming the first value that differs and two ranks that disagree: "--lr: 0.001 on rank 0, but
// 0.01 on rank 2".
void require_agreement(const Communicator& comm, std::vector<CommandLine::Value> values);

// A request to stop is a signal, such as the one that a scheduler sends before it takes the
// machine away: SIGUSR1, which mpirun forwards to every rank, or SIGTERM sent to one rank.
// (SIGTERM sent to mpirun itself ends the job at once, and the ranks cannot prevent this.)
//
// The signals are blocked, and the run asks whether one is pending. No handler ever runs: a
// handler could interrupt a library that has temporarily pointed the stack register at the
// heap, as oneDNN's sgemm does (oneDNN#4845), and the signal frame would then overwrite memory.
// A second signal has no effect, even while the checkpoint is being written.

// The exit status of a run that stopped on request and wrote its checkpoint (EX_TEMPFAIL in
// sysexits.h: "the user is invited to retry").
inline constexpr int kStoppedOnRequest = 75;

// Blocks the signals. Called first in main, because threads created later inherit the mask.
void hold_stop_signals();
// Called if this run cannot be resumed later: from then on these signals end it as they end any
// program, immediately if one is already pending.
void release_stop_signals();

struct GuardOptions {
  std::size_t check_replicas = 100;  // steps between two comparisons; 0: no comparisons
  bool stop_on_signal = false;       // set if the run can be resumed
};

class Guards {
 public:
  // `comm` and `parameters` must outlive the guards.
  Guards(const Communicator& comm, std::span<const Parameter> parameters, GuardOptions options);

  // Whether this rank was asked to stop. The signal may reach the ranks at different times, or
  // only some of them, so they must agree on the step after which all of them stop.
  bool asked_to_stop() const;

  // Called for every step, in order, once its outcome has reached the host: what the optimizer
  // did, and whether any rank was asked to stop. Both are the same on all ranks. Returns the
  // name of the parameter that made the optimizer skip the step, or an empty text if the step
  // was taken.
  std::string after_step(const UpdateState& update, bool anybody_asked);

  // Whether the replicas should be compared after this many steps.
  bool compares_after(std::size_t steps) const {
    return options_.check_replicas != 0 && steps % options_.check_replicas == 0;
  }
  // Compares the replicas. Called on all ranks when compares_after(steps) is true.
  void compare_replicas(std::size_t steps, const Stream& stream);

  // Whether the run must end now, on request or because of a problem. All ranks agree.
  bool must_stop() const { return stop_requested_ || !problem_.empty(); }
  bool stop_requested() const { return stop_requested_; }
  // The reason why training cannot continue, as a sentence; empty if it can.
  const std::string& problem() const { return problem_; }

 private:
  const Communicator& comm_;
  std::span<const Parameter> parameters_;
  GuardOptions options_;
  bool stop_requested_ = false;
  std::string problem_;
};

}  // namespace dist
