// What this file adds: what a run is protected from while it trains, in one place for the loop:
// gradients that are not finite, replicas that part, and the end of the machine's time.
// Builds on: the optimizer, which skips a step that is not finite; replica_check, stop_request.
#pragma once

#include "05_ddp_training/advanced/guards/stop_request.hpp"
#include "05_ddp_training/model/optimizer.hpp"
#include "common/communicator.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace dist {

struct GuardOptions {
  std::size_t check_replicas = 100;  // steps between two comparisons; 0: none
  bool stop_on_signal = false;       // for a run that can go on later
};

class Guards {
 public:
  // `comm` and `parameters` must outlive the guards.
  Guards(const Communicator& comm, std::span<const Parameter> parameters, GuardOptions options);

  // Whether this rank was asked to stop.
  bool asked_to_stop() const { return options_.stop_on_signal && stop_signal_is_pending(); }

  // Told of every step, in order, when its outcome has reached the host: what the optimizer
  // did, and whether some rank was asked to stop. The same on all ranks. Returns the parameter
  // that the step was skipped for; empty if it was taken.
  std::string after_step(const UpdateState& update, bool anybody_asked);

  // Whether the replicas are to be compared after so many steps.
  bool compares_after(std::size_t steps) const;
  // Called on all ranks when they are.
  void compare_replicas(std::size_t steps, const Stream& stream);

  // Whether the run must end now: asked to, or because of a problem. The same on all ranks.
  bool must_stop() const { return stop_requested_ || !problem_.empty(); }
  bool stop_requested() const { return stop_requested_; }
  // What makes going on senseless, as a sentence; empty if nothing does.
  const std::string& problem() const { return problem_; }

 private:
  const Communicator& comm_;
  std::span<const Parameter> parameters_;
  GuardOptions options_;
  bool stop_requested_ = false;
  std::string problem_;
};

}  // namespace dist
