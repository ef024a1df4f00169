#include "02_broadcast/break_it/experiments.hpp"

#include "tools/broken/experiment.hpp"

#include <array>

namespace dist {
namespace {

constexpr std::array kExperiments{
    Experiment{"barrier-myth", "every collective is a barrier", break_barrier_myth, 2,
               why_no_barrier_myth},
    Experiment{"root-only", "a broadcast that only the root calls must hang", break_root_only},
    Experiment{"root-disagree", "any root will do", break_root_disagree},
    Experiment{"no-broadcast", "unequal replicas drift apart at once, and the loss shows it",
               break_no_broadcast},
};

}  // namespace

std::span<const Experiment> experiments() {
  return kExperiments;
}

}  // namespace dist
