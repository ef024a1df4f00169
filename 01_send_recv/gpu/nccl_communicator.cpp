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
  nccl.end_call();
  if (status == ncclSuccess) return;
  // The last error describes the failure better than the status code does.
  const std::string text = fmt::format("{} ({}): {} at {}:{}", ncclGetErrorString(status),
                                       ncclGetLastError(nullptr), call, file, line);
  // The exception may leave an open group, which would postpone all later calls, even
  // ncclCommAbort. Without a group, this call has no effect.
  ncclGroupEnd();
  throw Error(text);
}

NcclCommunicator::NcclCommunicator(const NcclId& bytes, int rank, int size, Device device,
                                   std::chrono::milliseconds limit)
    : rank_(rank), size_(size), device_(device) {
  ncclUniqueId id;
  std::memcpy(&id, bytes.data(), sizeof(id));
  const CurrentDevice current(device);  // NCCL uses the current GPU
  NCCL_CHECK(*this, ncclCommInitRank(&comm_, size, id, rank));
  watchdog_ = std::make_shared<NcclWatchdog>(comm_, device, limit);
}

NcclCommunicator::~NcclCommunicator() {
  const auto watchdog = std::move(watchdog_);
  if (!watchdog) return;
  // The other ranks may never arrive if this rank is failing.
  const bool failing = std::uncaught_exceptions() > 0;
  if (!failing) {
    // Finalizing would wait for queued work, too, but there the watchdog cannot end the wait.
    const CurrentDevice current(device_);
    const GpuWait wait;
    cudaDeviceSynchronize();
  }
  watchdog->stop();
  const bool failed = !watchdog->failure().empty();
  if (failed && !NcclWatchdog::can_end_calls()) return;  // aborted
  if (failing || failed) {
    ncclCommAbort(comm_);
  } else {
    ncclCommFinalize(comm_);
    ncclCommDestroy(comm_);
  }
}

void NcclCommunicator::begin_call() {
  if (watchdog_) watchdog_->begin_call();
  throw_if_failed();
  starting_.emplace();
}

void NcclCommunicator::end_call() {
  starting_.reset();
  if (watchdog_) watchdog_->end_call();
  throw_if_failed();
}

void NcclCommunicator::throw_if_failed() const {
  const std::string failure = watchdog_ ? watchdog_->failure() : "";
  if (failure.empty()) return;
  throw Error(fmt::format("NCCL on rank {} of {}: {}", rank_, size_, failure));
}

std::shared_ptr<void> NcclCommunicator::allocate(std::size_t bytes) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
  const CurrentDevice current(device_);
  void* memory = nullptr;
  if (ncclMemAlloc(&memory, bytes) != ncclSuccess) {
    throw Error(fmt::format("ncclMemAlloc: no memory for {} bytes", bytes));
  }
  void* handle = nullptr;
  const ncclResult_t status = ncclCommRegister(comm_, memory, bytes, &handle);
  // Destroying the communicator also deregisters its memory.
  std::shared_ptr<void> owner(memory, [comm = comm_, handle, user = std::weak_ptr(watchdog_),
                                       device = device_](void* p) {
    const CurrentDevice of_memory(device);
    {
      const GpuWait wait;
      cudaDeviceSynchronize();  // queued work may still use the memory
    }
    if (const auto watchdog = user.lock(); watchdog && handle != nullptr) {
      watchdog->begin_call();
      if (watchdog->failure().empty()) ncclCommDeregister(comm, handle);
      watchdog->end_call();
    }
    ncclMemFree(p);
  });
  NCCL_CHECK(*this, status);
  return owner;
#else
  return dist::allocate(bytes, device_);
#endif
}

void NcclCommunicator::synchronize(const Event& event) {
  const WaitScope wait("a stream with NCCL calls");
  throw_if_failed();
  event.synchronize();  // the watchdog ends the queued work, and thus this wait
  throw_if_failed();
}

#else

NcclId make_nccl_id() {
  throw Error("built without NCCL");
}

NcclCommunicator::NcclCommunicator(const NcclId&, int rank, int size, Device device,
                                   std::chrono::milliseconds)
    : rank_(rank), size_(size), device_(device) {
  throw Error("built without NCCL");
}

NcclCommunicator::~NcclCommunicator() = default;
void NcclCommunicator::synchronize(const Event& event) {
  event.synchronize();
}
void NcclCommunicator::begin_call() {}
void NcclCommunicator::end_call() {}
void NcclCommunicator::throw_if_failed() const {}
std::shared_ptr<void> NcclCommunicator::allocate(std::size_t) {
  throw Error("built without NCCL");
}

#endif

NcclCommunicator::NcclCommunicator(NcclCommunicator&& other) noexcept {
  *this = std::move(other);
}

NcclCommunicator& NcclCommunicator::operator=(NcclCommunicator&& other) noexcept {
  std::swap(comm_, other.comm_);
  std::swap(watchdog_, other.watchdog_);
  std::swap(rank_, other.rank_);
  std::swap(size_, other.size_);
  std::swap(device_, other.device_);
  return *this;
}

}  // namespace dist
