// The experiments of lesson 2, each in the file named after it. To run one:
// build/bin/broken/broadcast NAME
#pragma once

#include "common/program.hpp"

#include <string>

namespace dist {

bool break_barrier_myth(const Program& program);
std::string why_no_barrier_myth(const Program& program);
bool break_root_only(const Program& program);
bool break_root_disagree(const Program& program);
bool break_no_broadcast(const Program& program);

}  // namespace dist
