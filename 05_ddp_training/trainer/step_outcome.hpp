// What this file adds: the outcome of one step, on its way to the host. It is read while the
// next step runs, so that no step waits for its own outcome.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace dist {

// Times of one step, in milliseconds.
struct CommunicationTimes {
  double total = 0;     // summed over the step's all-reduces
  double exposed = 0;   // the part of `total` during which nothing was computed
  double hideable = 0;  // the part that the backward pass could hide (overlap_bound.hpp)
};

struct StepOutcome {
  std::span<const double> means;  // the losses of this rank's batches, on the device
  std::span<double> numbers;      // on the device: their mean, and 1 if this rank must stop
  // Both `numbers` in host memory, averaged over all ranks if there is a collective.
  std::span<double> result;
  Event copied{};                      // this rank's numbers have arrived
  std::shared_ptr<Work> collective{};  // their mean over all ranks has arrived

  std::size_t samples = 0;  // on this rank
  double waited_ms = 0;     // waiting for its batches
  bool ends_epoch = false;
  std::function<CommunicationTimes()> times{};  // empty: nothing was sent
  // The most bytes that any rank sent, if they were counted in this step.
  std::optional<std::uint64_t> bytes_sent{};

  // Makes the host wait for this step, but not for later ones.
  void wait() const {
    copied.synchronize();
    if (collective) collective->synchronize();
  }
  double loss() const { return result[0]; }
  bool asked_to_stop() const { return result[1] > 0; }
};

}  // namespace dist
