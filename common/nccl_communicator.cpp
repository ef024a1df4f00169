#include "common/nccl_communicator.hpp"

#include "common/check.hpp"
#include "common/check_cuda.hpp"
#include "common/check_nccl.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace dist {

#if DIST_WITH_NCCL

void check_nccl(ncclResult_t status, const char* call, const char* file, int line) {
  if (status == ncclSuccess) return;
  // What NCCL knows about the failure is kept with the last error, not in the code.
  throw Error(fmt::format("{} ({}): {} at {}:{}", ncclGetErrorString(status),
                          ncclGetLastError(nullptr), call, file, line));
}

NcclId make_nccl_id() {
  static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));
  ncclUniqueId id;
  NCCL_CHECK(ncclGetUniqueId(&id));
  NcclId bytes;
  std::memcpy(bytes.data(), &id, sizeof(id));
  return bytes;
}

NcclCommunicator::NcclCommunicator(const NcclId& bytes, int rank, int size, Device device)
    : rank_(rank), size_(size), device_(device) {
  ncclUniqueId id;
  std::memcpy(&id, bytes.data(), sizeof(id));
  CUDA_CHECK(cudaSetDevice(device.index));  // NCCL takes the current GPU
  NCCL_CHECK(ncclCommInitRank(&comm_, size, id, rank));
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ != nullptr) ncclCommDestroy(comm_);
}

#else

NcclId make_nccl_id() {
  throw Error("built without NCCL");
}

NcclCommunicator::NcclCommunicator(const NcclId&, int rank, int size, Device device)
    : rank_(rank), size_(size), device_(device) {
  throw Error("built without NCCL");
}

NcclCommunicator::~NcclCommunicator() = default;

#endif

NcclCommunicator::NcclCommunicator(NcclCommunicator&& other) noexcept
    : comm_(std::exchange(other.comm_, nullptr)),
      rank_(other.rank_),
      size_(other.size_),
      device_(other.device_) {}

NcclCommunicator& NcclCommunicator::operator=(NcclCommunicator&& other) noexcept {
  std::swap(comm_, other.comm_);
  std::swap(rank_, other.rank_);
  std::swap(size_, other.size_);
  std::swap(device_, other.device_);
  return *this;
}

std::string why_no_nccl(const Communicator& comm, Device device) {
  if (!DIST_WITH_NCCL) return "built without NCCL";
  if (device.is_cpu()) return "NCCL moves GPU memory, and these tensors are on the CPU";
  const int gpus = cuda_device_count();
  if (comm.local_size() > gpus) {
    return fmt::format("NCCL wants a GPU for every rank, and this host has {} for {} ranks",
                       gpus, comm.local_size());
  }
  return "";
}

void require_nccl(const std::string& flag, const Communicator& comm, Device device) {
  const std::string obstacle = why_no_nccl(comm, device);
  if (!obstacle.empty()) throw Error(fmt::format("{}: nccl: {}", flag, obstacle));
}

bool nccl_everywhere(const Communicator& comm, Device device) {
  return comm.all_agree(why_no_nccl(comm, device).empty());
}

}  // namespace dist
