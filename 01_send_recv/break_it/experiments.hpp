// What lesson 1 breaks on purpose: `send_recv --break NAME`. Each stands in the file of its
// name.
#pragma once

#include "tools/broken/break_it.hpp"

#include <array>
#include <string>

namespace dist {

bool break_shared_variable(const BreakIt& with);
bool break_head_to_head(const BreakIt& with);
bool break_wrong_tag(const BreakIt& with);
bool break_truncate(const BreakIt& with);
bool break_wrong_type(const BreakIt& with);
bool break_reuse_buffer(const BreakIt& with);
bool break_print_order(const BreakIt& with);
std::string why_no_print_order(const BreakIt& with);
bool break_no_group(const BreakIt& with);
std::string why_no_group(const BreakIt& with);

inline constexpr std::array kSendRecvExperiments{
    Experiment{"shared-variable", "ranks share memory", break_shared_variable},
    Experiment{"head-to-head", "it ran, so it is right", break_head_to_head},
    Experiment{"wrong-tag", "a receive takes whatever comes", break_wrong_tag},
    Experiment{"truncate", "a receive takes as much as it has room for", break_truncate},
    Experiment{"wrong-type", "MPI compares the types", break_wrong_type},
    Experiment{"reuse-buffer", "MPI_Isend copied my data", break_reuse_buffer},
    Experiment{"print-order", "the order of lines is the order in time", break_print_order, 2,
               why_no_print_order},
    Experiment{"no-group", "NCCL calls pair up by themselves", break_no_group, 2, why_no_group},
};

}  // namespace dist
