#include "01_send_recv/gpu/cuda_aware.hpp"

#include <mpi.h>

// Open MPI declares MPIX_Query_cuda_support in its extensions; other MPI implementations that
// have this function declare it in mpi.h.
#if DIST_WITH_CUDA && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace dist {

bool mpi_is_cuda_aware() {
  // No MPI implementation can read emulated device memory.
#if DIST_WITH_CUDA && !DIST_CUDA_EMULATED && defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

Device message_device(Device device) {
  return device.is_cpu() || mpi_is_cuda_aware() ? device : Device{};
}

std::string describe_messages(Device device) {
  if (device.is_cpu()) return "";
  return mpi_is_cuda_aware() ? "; MPI is CUDA-aware and reads the GPU's memory directly"
                             : "; MPI is not CUDA-aware and gets pinned host copies";
}

}  // namespace dist
