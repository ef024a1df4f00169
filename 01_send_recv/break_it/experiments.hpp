// The experiments of lesson 1, one per file. To run one: build/bin/broken/send_recv NAME
#pragma once

#include "common/program.hpp"

#include <string>

namespace dist {

bool break_shared_variable(const Program& program);
bool break_head_to_head(const Program& program);
bool break_wrong_tag(const Program& program);
bool break_truncate(const Program& program);
bool break_wrong_type(const Program& program);
bool break_reuse_buffer(const Program& program);
bool break_print_order(const Program& program);
std::string why_no_print_order(const Program& program);
bool break_no_group(const Program& program);

}  // namespace dist
