// A thread that watches one NCCL communicator, so that a wait for another rank always ends.
//
// NCCL's calls and the kernels that they queue wait for the other ranks, however long that
// takes. Only a different thread can end such a wait. PyTorch has a watchdog for the same
// purpose (ProcessGroupNCCL).
//
// ncclCommRevoke ends all waits, and leaves it to the thread that uses the communicator to free
// it. NCCL has had it since 2.28.9. Before, there is only ncclCommAbort, which also frees the
// communicator. So it must not run during a call, and with such an NCCL a call that waits
// forever is left to the watch's hang report.
#pragma once

#include "common/device.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

struct ncclComm;  // what ncclComm_t points to

namespace dist {

class NcclWatchdog {
 public:
  // Asks `comm` for errors several times per second. Ends all its waits after an error, or if
  // one wait takes longer than `limit` (0: no limit). `comm` must outlive the watchdog.
  NcclWatchdog(ncclComm* comm, Device device, std::chrono::milliseconds limit);
  ~NcclWatchdog() { stop(); }
  NcclWatchdog(const NcclWatchdog&) = delete;
  NcclWatchdog& operator=(const NcclWatchdog&) = delete;

  // Whether it can end a wait within a call of NCCL. If not, it aborts the communicator.
  static bool can_end_calls();

  // Called by the thread that uses the communicator, before and after each call of NCCL.
  void begin_call();
  void end_call();

  // Why all waits were ended; empty if they were not. Then the communicator must not be used.
  std::string failure() const;
  // From now on, no wait is ended.
  void stop();

 private:
  void run(Device device);
  std::string problem() const;

  ncclComm* comm_;
  std::chrono::milliseconds limit_;
  mutable std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::optional<std::chrono::steady_clock::time_point> in_call_since_;
  std::string failure_;
  std::thread thread_;  // declared last, because it uses all members above
};

}  // namespace dist
