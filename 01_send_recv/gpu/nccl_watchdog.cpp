#include "01_send_recv/gpu/nccl_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>

#if DIST_WITH_NCCL
// Weak, so that a program starts with an NCCL that does not have it.
extern "C" [[gnu::weak]] ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags);

namespace dist {

using Clock = std::chrono::steady_clock;

NcclWatchdog::NcclWatchdog(ncclComm* comm, Device device, std::chrono::milliseconds limit)
    : comm_(comm), limit_(limit), thread_([this, device] { run(device); }) {}

bool NcclWatchdog::can_end_calls() {
  int version = 0;  // of the library
  ncclGetVersion(&version);
  // The linker may have settled the weak symbol before, with an older library.
  return &ncclCommRevoke != nullptr && version >= NCCL_VERSION(2, 28, 7);
}

void NcclWatchdog::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void NcclWatchdog::set_limit(std::chrono::milliseconds limit) {
  const std::lock_guard lock(mutex_);
  limit_ = limit;
}

void NcclWatchdog::begin_call() {
  const std::lock_guard lock(mutex_);
  in_call_since_ = Clock::now();
  if (failure_.empty()) starting_.emplace();
}

void NcclWatchdog::end_call() {
  const std::lock_guard lock(mutex_);
  in_call_since_.reset();
  starting_.reset();
}

std::string NcclWatchdog::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool NcclWatchdog::has_aborted() const {
  const std::lock_guard lock(mutex_);
  return aborts_;
}

std::string NcclWatchdog::problem() const {
  ncclResult_t state = ncclSuccess;
  ncclResult_t status = ncclCommGetAsyncError(comm_, &state);
  if (status == ncclSuccess && state != ncclInProgress) status = state;
  if (status != ncclSuccess) {
    return fmt::format("{} ({})", ncclGetErrorString(status), ncclGetLastError(nullptr));
  }
  // Any wait for the GPU may be one for a collective that was queued before.
  const auto now = Clock::now();
  auto since = in_call_since_.value_or(now);
  if (const Clock::rep began = gpu_wait_began; began != 0) {
    since = std::min(since, Clock::time_point(Clock::duration(began)));
  }
  if (limit_.count() > 0 && now - since > limit_) {
    return fmt::format("nothing moved for {} s: not every rank made the same call",
                       std::chrono::duration<double>(limit_).count());
  }
  return "";
}

void NcclWatchdog::run(Device device) {
  make_current(device);
  name_this_thread("NCCL watchdog");
  constexpr std::chrono::milliseconds kOften{100};
  std::unique_lock lock(mutex_);
  const auto pause = [&] {
    return limit_.count() > 0 ? std::min(kOften, limit_ / 10) : kOften;
  };
  while (!stopped_.wait_for(lock, pause(), [this] { return stop_; })) {
    if (in_call_since_ && !can_end_calls()) continue;
    failure_ = problem();
    if (failure_.empty()) continue;
    const bool in_call = in_call_since_.has_value();
    aborts_ = !in_call;
    lock.unlock();
    // Unlike destroy, both end kernels that wait for a missing rank. begin_call now throws.
    if (in_call) {
      ncclCommRevoke(comm_, /*flags=*/0);  // NCCL_REVOKE_DEFAULT
    } else {
      ncclCommAbort(comm_);
    }
    return;
  }
}

}  // namespace dist

#else

bool dist::NcclWatchdog::can_end_calls() {
  return false;
}

#endif
