#include "common/check_cuda.hpp"

#include <fmt/core.h>

namespace dist {

#if DIST_WITH_CUDA

void check_cuda(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  // CUDA keeps an error until it is read, and would otherwise report it for the next kernel
  // launch.
  static_cast<void>(cudaGetLastError());
  throw Error(fmt::format("{} ({}): {} at {}:{}", cudaGetErrorString(status),
                          cudaGetErrorName(status), call, file, line));
}

#endif

}  // namespace dist
