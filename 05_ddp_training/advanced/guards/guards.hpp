// What this file adds: what a run is protected from while it trains, in one place for the loop:
// gradients that are not finite, replicas that part, and the end of the machine's time.
// Builds on: finite_check, replica_check, stop_request.
#pragma once

#include "05_ddp_training/advanced/guards/finite_check.hpp"
#include "05_ddp_training/advanced/guards/stop_request.hpp"
#include "common/communicator.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace dist {

struct GuardOptions {
  std::size_t check_replicas = 100;  // steps between two comparisons; 0: none
  bool stop_on_signal = false;       // for a run that can go on later
};

class Guards {
 public:
  // So many steps without a finite gradient, one after the other, are no accident.
  static constexpr std::size_t kMostSkippedInARow = 10;

  // `comm` and `parameters` must outlive the guards.
  Guards(const Communicator& comm, std::span<const Parameter> parameters, GuardOptions options,
         const Stream& stream);

  // After the average: whether the optimizer may take this step. The same on all ranks, without
  // a message. Waits for the stream.
  bool may_step(const Stream& stream);

  // Whether this rank was asked to stop.
  bool asked_to_stop() const { return signal_ && signal_->asked(); }

  // Called on all ranks after each step, `steps` of which have been done; `anybody_asked`, the
  // same on all, says whether some rank was asked to stop.
  void after_step(std::size_t steps, bool anybody_asked, const Stream& stream);

  // Whether the run must end now: asked to, or because of a problem. The same on all ranks.
  bool must_stop() const { return stop_requested_ || !problem_.empty(); }
  bool stop_requested() const { return stop_requested_; }
  // What makes going on senseless, as a sentence; empty if nothing does.
  const std::string& problem() const { return problem_; }

  // Of all steps so far, and the parameter that the last of them was skipped for.
  std::size_t skipped() const { return skipped_; }
  const std::string& last_not_finite() const { return last_not_finite_; }

 private:
  const Communicator& comm_;
  std::span<const Parameter> parameters_;
  GuardOptions options_;
  FiniteCheck finite_;
  std::optional<StopRequest> signal_;
  std::size_t skipped_ = 0;
  std::size_t skipped_in_a_row_ = 0;
  std::string last_not_finite_;
  bool stop_requested_ = false;
  std::string problem_;
};

}  // namespace dist
