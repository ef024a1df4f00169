// The experiments of lesson 3, each in its own file. Run one with build/bin/broken/all_reduce
// NAME.
#pragma once

#include "common/program.hpp"

namespace dist {

bool break_forget_divide(const Program& program);
bool break_chunk_off_by_one(const Program& program);
bool break_full_tensor_ring(const Program& program);
std::string why_nothing_is_counted(const Program& program);
bool break_swap_order(const Program& program);
bool break_one_skips(const Program& program);
bool break_association(const Program& program);
bool break_wrong_stream(const Program& program);

// Two ranks do not suffice: a ring of whole tensors then sends the right number of bytes, and
// a + b is b + a.
inline constexpr int kFewestForARing = 3;

}  // namespace dist
