// CUDA_CHECK throws Error with the library's own error text. It is used only where house rule 7
// of CONTRIBUTING.md allows it, inside #if DIST_WITH_CUDA.
#pragma once

#include "common/build_config.hpp"
#include "common/check.hpp"

#if DIST_WITH_CUDA
#include <cuda_runtime_api.h>

namespace dist {

void check_cuda(cudaError_t status, const char* call, const char* file, int line);

}  // namespace dist

#define CUDA_CHECK(call) ::dist::check_cuda((call), #call, __FILE__, __LINE__)
#endif
