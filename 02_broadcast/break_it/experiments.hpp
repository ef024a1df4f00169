// The experiments of lesson 2, each in the file of its name: build/bin/broken/broadcast NAME.
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
