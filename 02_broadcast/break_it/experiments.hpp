// What lesson 2 breaks on purpose: `broadcast --break NAME`. Each stands in the file of its
// name.
#pragma once

#include "tools/broken/break_it.hpp"

#include <array>
#include <string>

namespace dist {

bool break_barrier_myth(const BreakIt& with);
std::string why_no_barrier_myth(const BreakIt& with);
bool break_root_only(const BreakIt& with);
bool break_root_disagree(const BreakIt& with);
bool break_no_broadcast(const BreakIt& with);

inline constexpr std::array kBroadcastExperiments{
    Experiment{"barrier-myth", "every collective is a barrier", break_barrier_myth, 2,
               why_no_barrier_myth},
    Experiment{"root-only", "a broadcast that only the root calls must hang", break_root_only},
    Experiment{"root-disagree", "any root will do", break_root_disagree},
    Experiment{"no-broadcast", "unequal replicas part at once, and the loss shows it",
               break_no_broadcast},
};

}  // namespace dist
