#include "01_send_recv/gpu/nccl_communicator.hpp"

#include "common/buffer.hpp"
#include "common/check.hpp"
#include "common/check_cuda.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <unistd.h>
#include <utility>
#include <vector>

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

namespace {

// Identifies a GPU by host and bus, as NCCL does. The index is not enough, since it depends on
// CUDA_VISIBLE_DEVICES. Nor is the host's name, since two hosts may have the same one. Empty
// without a GPU. The size is fixed, so that ranks can gather the names.
using GpuName = std::array<char, 128>;

GpuName name_of(Device device) {
  GpuName name{};
  if (device.is_cpu()) return name;
  char host[65] = {}, bus[20] = {};
  std::string boot;  // a UUID that Linux draws when the host starts
  ::gethostname(host, sizeof(host) - 1);
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  CUDA_CHECK(cudaDeviceGetPCIBusId(bus, sizeof(bus), device.index));
  fmt::format_to_n(name.data(), name.size(), "{} {} {}", boot, bus, host);
  return name;
}

// The version of the library loaded at run time, which may differ from the header's.
int loaded_version() {
  int version = 0;
  ncclGetVersion(&version);
  return version;
}

std::string text_of(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

NcclSupport can_share_a_gpu(const std::string& sharers, int version, bool enabled) {
  constexpr int kFirstToAllow = 23000;
  if (version < kFirstToAllow) {
    return {false, fmt::format("{}, which NCCL {} does not allow (with "
                               "NCCL_MULTI_RANK_GPU_ENABLE=1 and NCCL_MAX_CTAS=4 in the "
                               "environment, 2.30 does)",
                               sharers, text_of(version))};
  }
  if (enabled) return {true, sharers + ", as NCCL_MULTI_RANK_GPU_ENABLE=1 allows"};
  return {false, sharers +
                     ", which NCCL allows only with NCCL_MULTI_RANK_GPU_ENABLE=1 in the "
                     "environment (and NCCL_MAX_CTAS=4, so that more than two can run)"};
}

}  // namespace

std::string nccl_version() {
  const int loaded = loaded_version();
  if (loaded == NCCL_VERSION_CODE) return text_of(loaded);
  return fmt::format("{} (compiled for {})", text_of(loaded), text_of(NCCL_VERSION_CODE));
}

NcclSupport can_use_nccl(const Communicator& comm, Device device) {
  struct PeerInfo {
    GpuName gpu;
    int nccl;       // the library's version
    int may_share;  // whether its environment allows that ranks share a GPU
  };
  const char* const asked = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  const PeerInfo mine{name_of(device), loaded_version(),
                      asked != nullptr && asked == std::string("1") ? 1 : 0};
  // Every rank reads the same list in the same order, so all ranks find the same answer.
  const std::vector<PeerInfo> all = comm.all_gather(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].gpu == GpuName{}) {
      return {false,
              "NCCL needs GPU memory, and " +
                  (device.is_cpu() ? "these tensors are on the CPU"
                                   : fmt::format("rank {}'s tensors are on the CPU", rank))};
    }
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    constexpr int kOldest = std::min(NCCL_VERSION_CODE, NCCL_VERSION(2, 19, 0));
    if (all[rank].nccl >= kOldest) continue;
    return {false, fmt::format("rank {} has loaded NCCL {}, but this program was compiled for "
                               "{} and needs {}; put a newer one first in LD_LIBRARY_PATH",
                               rank, text_of(all[rank].nccl), text_of(NCCL_VERSION_CODE),
                               text_of(kOldest))};
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (std::size_t other = 0; other < rank; ++other) {
      if (all[rank].gpu != all[other].gpu) continue;
      return can_share_a_gpu(
          fmt::format("ranks {} and {} share one GPU", other, rank),
          std::ranges::min(all, {}, &PeerInfo::nccl).nccl,
          std::ranges::all_of(all, [](const PeerInfo& p) { return p.may_share == 1; }));
    }
  }
  return {true, "a GPU for every rank"};
}

void check_nccl(NcclCommunicator& nccl, ncclResult_t status, const char* call, const char* file,
                int line) {
  if (status == ncclSuccess) return nccl.end_call();
  // Some cards without access to each other's memory fail like this when they first connect.
  const bool may_help = !nccl.has_worked() && status == ncclUnhandledCudaError;
  // The last error describes the failure better than the status code does.
  const std::string text = fmt::format(
      "{} ({}): {} at {}:{}{}", ncclGetErrorString(status), ncclGetLastError(nullptr), call,
      file, line, may_help ? "; try NCCL_CUMEM_HOST_ENABLE=0 in the environment" : "");
  // The exception may leave an open group, which would postpone all later calls, even
  // ncclCommAbort. Without a group, this call has no effect.
  ncclGroupEnd();
  nccl.end_call();
  throw Error(text);
}

NcclCommunicator::NcclCommunicator(const NcclId& bytes, int rank, int size, Device device,
                                   std::chrono::milliseconds limit)
    : rank_(rank), size_(size), device_(device) {
  ncclUniqueId id;
  std::memcpy(&id, bytes.data(), sizeof(id));
  const CurrentDevice current(device);  // NCCL uses the current GPU
  const StartScope joining;
  NCCL_CHECK(*this, ncclCommInitRank(&comm_, size, id, rank));
  watchdog_ = std::make_shared<NcclWatchdog>(comm_, device, limit);
}

NcclCommunicator::~NcclCommunicator() {
  const auto watchdog = std::move(watchdog_);
  if (!watchdog) return;
  // The other ranks may never arrive if this rank is failing.
  const bool failing = std::uncaught_exceptions() > 0;
  if (!failing && watchdog->failure().empty()) {
    // Finalizing would wait for queued work, too, but there the watchdog cannot end the wait.
    const CurrentDevice current(device_);
    const GpuWait wait;
    cudaDeviceSynchronize();
  }
  watchdog->stop();
  if (watchdog->has_aborted()) return;
  if (failing || !watchdog->failure().empty()) {
    ncclCommAbort(comm_);
  } else {
    ncclCommFinalize(comm_);
    ncclCommDestroy(comm_);
  }
}

void NcclCommunicator::set_limit(std::chrono::milliseconds limit) {
  watchdog_->set_limit(limit);
}

void NcclCommunicator::abort() {
  const auto watchdog = std::move(watchdog_);  // so the destructor has nothing left to do
  watchdog->stop();
  if (!watchdog->has_aborted()) ncclCommAbort(comm_);
}

void NcclCommunicator::begin_call() {
  if (watchdog_) watchdog_->begin_call();
  throw_if_failed();
}

void NcclCommunicator::end_call() {
  if (watchdog_) watchdog_->end_call();
  throw_if_failed();
}

void NcclCommunicator::throw_if_failed() const {
  const std::string failure = watchdog_ ? watchdog_->failure() : "";
  if (failure.empty()) return;
  if (!watchdog_->has_aborted()) ncclGroupEnd();  // as in check_nccl
  throw Error(fmt::format("NCCL on rank {} of {}: {}", rank_, size_, failure));
}

std::shared_ptr<void> NcclCommunicator::allocate(std::size_t bytes) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
  const CurrentDevice current(device_);
  void* memory = nullptr;
  begin_call();
  if (ncclMemAlloc(&memory, bytes) != ncclSuccess) {
    end_call();
    throw Error(fmt::format("ncclMemAlloc: no memory for {} bytes", bytes));
  }
  void* handle = nullptr;
  const ncclResult_t status = ncclCommRegister(comm_, memory, bytes, &handle);
  // Destroying the communicator also deregisters its memory.
  std::shared_ptr<void> owner(memory, [comm = comm_, handle, user = std::weak_ptr(watchdog_),
                                       device = device_](void* p) {
    const CurrentDevice of_memory(device);
    const auto watchdog = user.lock();
    // Queued work may still use the memory, and after a failure it may never end.
    if (watchdog && !watchdog->failure().empty()) return;
    {
      const GpuWait wait;
      cudaDeviceSynchronize();
    }
    if (watchdog && handle != nullptr) {
      watchdog->begin_call();
      if (watchdog->failure().empty()) ncclCommDeregister(comm, handle);
      watchdog->end_call();
    }
    ncclMemFree(p);
  });
  check_nccl(*this, status, "ncclCommRegister", __FILE__, __LINE__);
  return owner;
#else
  return dist::allocate(bytes, device_);
#endif
}

void NcclCommunicator::synchronize(const Event& event) {
  throw_if_failed();
  event.synchronize();  // the watchdog ends the queued work, and thus this wait
  throw_if_failed();
  has_worked_ = true;
}

#else

NcclId make_nccl_id() {
  throw Error("built without NCCL");
}

std::string nccl_version() {
  return "none";
}

NcclSupport can_use_nccl(const Communicator&, Device) {
  return {false, "built without NCCL"};
}

NcclCommunicator::NcclCommunicator(const NcclId&, int, int, Device, std::chrono::milliseconds) {
  throw Error("built without NCCL");
}

// There is no NcclCommunicator, so nobody calls these.
NcclCommunicator::~NcclCommunicator() = default;
void NcclCommunicator::set_limit(std::chrono::milliseconds) {}
void NcclCommunicator::abort() {}
void NcclCommunicator::synchronize(const Event&) {}
std::shared_ptr<void> NcclCommunicator::allocate(std::size_t) {
  return nullptr;
}

#endif

// The watch reports a hang after --timeout, or after 30 s in a StartScope.
std::chrono::milliseconds NcclCommunicator::default_limit() {
  const WatchTable* const watch = watch_table();
  const double timeout_s = watch != nullptr ? watch->timeout_s() : 60;
  const std::chrono::duration<double> longest(timeout_s > 0 ? std::max(timeout_s, 30.0) : 0);
  return std::chrono::duration_cast<std::chrono::milliseconds>(2 * longest);
}

}  // namespace dist
