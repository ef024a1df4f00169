// What lesson 1 breaks on purpose: `send_recv --break NAME`. Each stands in the file of its
// name.
#pragma once

#include "common/break_it.hpp"

#include <array>

namespace dist {

bool break_shared_variable(const BreakIt& with);

inline constexpr std::array kSendRecvExperiments{
    Experiment{"shared-variable", "ranks share memory", break_shared_variable},
};

}  // namespace dist
