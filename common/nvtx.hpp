// The ranges that Nsight Systems shows in its timeline: those of CallScope (common/watch.hpp).
// NVTX (https://nvidia.github.io/NVTX/) is a part of the CUDA Toolkit. In a build without it,
// and in a run without a profiler, nothing happens.
#pragma once

#include <string_view>

namespace dist {

// Ranges of a thread are nested: each end is that of the range that began last. A range's text
// is "operation" or "operation: subject".
void begin_profiler_range(std::string_view operation, std::string_view subject);
void end_profiler_range();

}  // namespace dist
