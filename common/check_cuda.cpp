#include "common/check_cuda.hpp"

#include <fmt/core.h>

namespace dist {

#if DIST_WITH_CUDA

void check_cuda(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  // Read the error, because CUDA keeps it until then and would report it for the next launch.
  static_cast<void>(cudaGetLastError());
  throw Error(fmt::format("{} ({}): {} at {}:{}", cudaGetErrorString(status),
                          cudaGetErrorName(status), call, file, line));
}

#endif

}  // namespace dist
