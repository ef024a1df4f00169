// What this file adds: what one step has to tell, on its way to the host. It is read while the
// next step runs, so that no step waits for its own answer.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace dist {

// Of one step, in milliseconds.
struct CommunicationTimes {
  double total = 0;     // what the all-reduces took, one after the other
  double exposed = 0;   // the part during which nothing was computed
  double hideable = 0;  // the part that backward could have hidden (overlap_bound.hpp)
};

struct StepOutcome {
  std::span<const double> means;  // this rank's batches' losses, in the device's memory
  std::span<double> numbers;      // there too: their mean, and 1 if this rank was asked to stop
  // The same two, over all ranks if a collective was asked for them, in host memory.
  std::span<double> result;
  Event copied{};                      // they are there ...
  std::shared_ptr<Work> collective{};  // ... and so are the other ranks'

  std::size_t samples = 0;  // of this rank
  double waited_ms = 0;     // for its batches
  bool ends_epoch = false;
  std::function<CommunicationTimes()> times{};  // empty: nothing was sent
  // The most that a rank sent, if it was counted in this step.
  std::optional<std::uint64_t> bytes_sent{};

  // The host waits for this step, and no longer.
  void wait() const {
    copied.synchronize();
    if (collective) collective->synchronize();
  }
  double loss() const { return result[0]; }
  bool asked_to_stop() const { return result[1] > 0; }
};

}  // namespace dist
