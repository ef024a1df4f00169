// What this file adds: one place where the training loop is protected from non-finite gradients
// and diverging replicas, and learns of requests to stop.
// Builds on: the optimizer (skips steps with such gradients), replica_check, stop_request.
#pragma once

#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/trainer/guards/stop_request.hpp"
#include "common/communicator.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace dist {

struct GuardOptions {
  std::size_t check_replicas = 100;  // steps between two comparisons; 0: no comparisons
  bool stop_on_signal = false;       // set if the run can be resumed
};

class Guards {
 public:
  // `comm` and `parameters` must outlive the guards.
  Guards(const Communicator& comm, std::span<const Parameter> parameters, GuardOptions options);

  // Whether this rank was asked to stop.
  bool asked_to_stop() const { return options_.stop_on_signal && stop_signal_is_pending(); }

  // Called for every step, in order, once its outcome has reached the host: what the optimizer
  // did, and whether any rank was asked to stop. Both are the same on all ranks. Returns the
  // name of the parameter that made the optimizer skip the step, or an empty text if the step
  // was taken.
  std::string after_step(const UpdateState& update, bool anybody_asked);

  // Whether the replicas should be compared after this many steps.
  bool compares_after(std::size_t steps) const;
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
