#include "01_send_recv/gpu/why_no_nccl.hpp"

#include "common/check.hpp"
#include "common/check_cuda.hpp"

#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#if DIST_WITH_NCCL
#include <nccl.h>
#endif

namespace dist {

#if DIST_WITH_NCCL
namespace {

// Identifies a GPU by host and bus, as NCCL does. The index is not enough, since it depends on
// CUDA_VISIBLE_DEVICES. Nor is the host's name, since two hosts may have the same one. The size
// is fixed, so that ranks can gather the names.
struct GpuName {
  char host[65] = {};
  char boot[37] = {};  // a UUID that Linux draws when the host starts
  char bus[20] = {};

  bool operator==(const GpuName& other) const {
    return std::memcmp(this, &other, sizeof other) == 0;
  }
};

GpuName name_of(Device device) {
  GpuName name;
  if (device.is_cpu()) return name;
  ::gethostname(name.host, sizeof(name.host) - 1);
  std::ifstream("/proc/sys/kernel/random/boot_id").read(name.boot, sizeof(name.boot) - 1);
  CUDA_CHECK(cudaDeviceGetPCIBusId(name.bus, sizeof(name.bus), device.index));
  return name;
}

// Asks the NCCL library loaded at run time, which may differ from the one used at build time.
std::string why_no_shared_gpu(const std::string& sharers) {
  int version = 0;
  ncclGetVersion(&version);
  const char* asked = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  const bool is_asked = asked != nullptr && std::strcmp(asked, "1") == 0;
  constexpr int kFirstToAllow = 23000;
  if (version >= kFirstToAllow) {
    if (is_asked) return "";
    return sharers +
           ", which NCCL allows only with NCCL_MULTI_RANK_GPU_ENABLE=1 in the environment";
  }
  return fmt::format("{}, which NCCL {}.{} does not allow (2.30 does)", sharers,
                     version / 10000, version % 10000 / 100);
}

}  // namespace

std::string why_no_nccl(const Communicator& comm, Device device) {
  const GpuName mine = name_of(device);
  std::vector<GpuName> all(static_cast<std::size_t>(comm.size()));
  constexpr int kBytes = sizeof(GpuName);
  MPI_CHECK(MPI_Allgather(&mine, kBytes, MPI_CHAR, all.data(), kBytes, MPI_CHAR, comm.get()));
  // Every rank reads the same list in the same order, so all ranks find the same answer.
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == GpuName{}) {
      return "NCCL needs GPU memory, and " +
             (device.is_cpu() ? "these tensors are on the CPU"
                              : fmt::format("rank {}'s tensors are on the CPU", rank));
    }
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (std::size_t other = 0; other < rank; ++other) {
      if (!(all[rank] == all[other])) continue;
      return why_no_shared_gpu(fmt::format("ranks {} and {} share one GPU", other, rank));
    }
  }
  return "";
}

#else

std::string why_no_nccl(const Communicator&, Device) {
  return "built without NCCL";
}

#endif

}  // namespace dist
