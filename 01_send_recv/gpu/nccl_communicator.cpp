#include "01_send_recv/gpu/nccl_communicator.hpp"

#include "01_send_recv/gpu/check_nccl.hpp"
#include "common/buffer.hpp"
#include "common/check.hpp"
#include "common/check_cuda.hpp"
#include "common/watch.hpp"

#include <fmt/core.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

namespace dist {

#if DIST_WITH_NCCL

NcclId make_nccl_id() {
  static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));
  ncclUniqueId id;
  const ncclResult_t status = ncclGetUniqueId(&id);
  if (status != ncclSuccess) {
    throw Error(fmt::format("ncclGetUniqueId: {}", ncclGetErrorString(status)));
  }
  NcclId bytes;
  std::memcpy(bytes.data(), &id, sizeof(id));
  return bytes;
}

void check_nccl(NcclCommunicator& nccl, ncclResult_t status, const char* call, const char* file,
                int line) {
  if (status == ncclSuccess) return;
  if (status == ncclInProgress) {
    nccl.wait_for_call();
    return;
  }
  // The last error describes the failure better than the status code does.
  throw Error(fmt::format("{} ({}): {} at {}:{}", ncclGetErrorString(status),
                          ncclGetLastError(nullptr), call, file, line));
}

NcclCommunicator::NcclCommunicator(const NcclId& bytes, int rank, int size, Device device,
                                   std::chrono::milliseconds limit)
    : rank_(rank), size_(size), device_(device), limit_(limit) {
  ncclUniqueId id;
  std::memcpy(&id, bytes.data(), sizeof(id));
  CUDA_CHECK(cudaSetDevice(device.index));  // NCCL uses the current GPU
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // so that we can report a rank that never arrives
  NCCL_CHECK(*this, ncclCommInitRankConfig(&comm_, size, id, rank, &config));
  alive_ = std::make_shared<char>();
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) return;
  alive_.reset();
  // Finalizing waits for the other ranks, which may never arrive if this rank is failing.
  if (std::uncaught_exceptions() > 0) {
    ncclCommAbort(comm_);
    return;
  }
  ncclResult_t state = ncclCommFinalize(comm_);
  const auto begin = std::chrono::steady_clock::now();
  while (state == ncclInProgress && std::chrono::steady_clock::now() - begin < limit_) {
    if (ncclCommGetAsyncError(comm_, &state) != ncclSuccess) break;
  }
  if (state == ncclSuccess) {
    ncclCommDestroy(comm_);
  } else {
    ncclCommAbort(comm_);
  }
}

bool NcclCommunicator::in_progress_since(std::chrono::steady_clock::time_point begin) {
  ncclResult_t state = ncclSuccess;
  ncclResult_t status = ncclCommGetAsyncError(comm_, &state);
  if (status == ncclSuccess && state != ncclInProgress) status = state;
  if (status != ncclSuccess) {
    give_up(fmt::format("{} ({})", ncclGetErrorString(status), ncclGetLastError(nullptr)));
  }
  if (std::chrono::steady_clock::now() - begin > limit_) {
    give_up(fmt::format("nothing moved for {} s: not every rank made the same call",
                        std::chrono::duration<double>(limit_).count()));
  }
  return state == ncclInProgress;
}

void NcclCommunicator::give_up(const std::string& reason) {
  alive_.reset();
  // Unlike destroy, abort ends the kernels that wait on the GPU for the missing rank.
  ncclCommAbort(std::exchange(comm_, nullptr));
  throw Error(fmt::format("NCCL on rank {} of {}: {}", rank_, size_, reason));
}

std::shared_ptr<void> NcclCommunicator::allocate(std::size_t bytes) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
  void* memory = nullptr;
  if (ncclMemAlloc(&memory, bytes) != ncclSuccess) {
    throw Error(fmt::format("ncclMemAlloc: no memory for {} bytes", bytes));
  }
  void* handle = nullptr;
  const ncclResult_t status = ncclCommRegister(comm_, memory, bytes, &handle);
  // Destroying the communicator also ends its registrations.
  std::shared_ptr<void> owner(
      memory, [comm = comm_, handle, alive = std::weak_ptr<void>(alive_)](void* p) {
        if (handle != nullptr && !alive.expired()) ncclCommDeregister(comm, handle);
        ncclMemFree(p);
      });
  NCCL_CHECK(*this, status);
  return owner;
#else
  return dist::allocate(bytes, device_);
#endif
}

void NcclCommunicator::wait_for_call() {
  const WaitScope wait("an NCCL call");
  const auto begin = std::chrono::steady_clock::now();
  while (in_progress_since(begin)) std::this_thread::yield();
}

void NcclCommunicator::synchronize(const Event& event) {
  const WaitScope wait("a stream with NCCL calls");
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const cudaError_t status = cudaEventQuery(event.get());
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) CUDA_CHECK(status);
    in_progress_since(begin);
    std::this_thread::yield();
  }
}

#else

NcclId make_nccl_id() {
  throw Error("built without NCCL");
}

NcclCommunicator::NcclCommunicator(const NcclId&, int rank, int size, Device device,
                                   std::chrono::milliseconds limit)
    : rank_(rank), size_(size), device_(device), limit_(limit) {
  throw Error("built without NCCL");
}

NcclCommunicator::~NcclCommunicator() = default;
void NcclCommunicator::synchronize(const Event& event) {
  event.synchronize();
}
void NcclCommunicator::wait_for_call() {}
std::shared_ptr<void> NcclCommunicator::allocate(std::size_t) {
  throw Error("built without NCCL");
}

#endif

NcclCommunicator::NcclCommunicator(NcclCommunicator&& other) noexcept {
  *this = std::move(other);
}

NcclCommunicator& NcclCommunicator::operator=(NcclCommunicator&& other) noexcept {
  std::swap(comm_, other.comm_);
  std::swap(alive_, other.alive_);
  std::swap(rank_, other.rank_);
  std::swap(size_, other.size_);
  std::swap(device_, other.device_);
  std::swap(limit_, other.limit_);
  return *this;
}

}  // namespace dist
