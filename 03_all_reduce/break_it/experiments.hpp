// What lesson 3 breaks on purpose: `all_reduce --break NAME`. Each stands in the file of its
// name; what calls NCCL, in NAME_nccl.cpp.
#pragma once

#include "tools/broken/break_it.hpp"

#include <array>

namespace dist {

bool break_forget_divide(const BreakIt& with);
bool break_chunk_off_by_one(const BreakIt& with);
bool break_full_tensor_ring(const BreakIt& with);
bool break_swap_order(const BreakIt& with);
bool break_one_skips(const BreakIt& with);
bool break_association(const BreakIt& with);
bool break_no_group(const BreakIt& with);
bool break_wrong_stream(const BreakIt& with);

std::string why_no_nccl_here(const BreakIt& with);

// On two ranks a ring of whole tensors sends no byte too many, and a + b is b + a.
inline constexpr int kFewestForARing = 3;

inline constexpr std::array kAllReduceExperiments{
    Experiment{"forget-divide", "the sum trains like the average", break_forget_divide},
    Experiment{"chunk-off-by-one", "a test with ones is enough", break_chunk_off_by_one},
    Experiment{"full-tensor-ring", "who gets the right sum has a ring all-reduce",
               break_full_tensor_ring, kFewestForARing},
    Experiment{"swap-order", "collectives may be called in any order", break_swap_order},
    Experiment{"one-skips", "the others will time out", break_one_skips},
    Experiment{"association", "equivalent means equal to the bit", break_association,
               kFewestForARing},
    Experiment{"no-group", "NCCL calls pair up by themselves", break_no_group, 2,
               why_no_nccl_here},
    Experiment{"wrong-stream", "work queued is work done", break_wrong_stream, 2,
               why_no_nccl_here},
};

}  // namespace dist
