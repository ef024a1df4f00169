// What this file adds: what data parallelism knows about a step once it has been queued. The
// times are read later, when the step is done, so that no step waits for its own outcome.
#pragma once

#include "common/stream.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace dist {

// Times of one step, in milliseconds.
struct CommunicationTimes {
  double total = 0;     // summed over the step's all-reduces
  double exposed = 0;   // the part of `total` during which nothing was computed
  double hideable = 0;  // the part that the backward pass could hide (overlap_bound.hpp)
};

struct StepOutcome {
  // Makes the host wait for an event, as ProcessGroup::synchronize does. Empty for a single
  // process, which waits for nobody.
  std::function<void(const Event&)> wait{};
  // To be called when the step is done. Empty if nothing was sent or measured.
  std::function<CommunicationTimes()> times{};
  // The most bytes that any rank sent, if they were counted in this step.
  std::optional<std::uint64_t> bytes_sent{};
};

}  // namespace dist
