// A thread that watches one NCCL communicator, so that a wait for another rank always ends.
//
// NCCL's calls and the kernels that they queue wait for the other ranks, however long that
// takes. Only ncclCommAbort ends such a wait, and only from a different thread. PyTorch has a
// watchdog for the same purpose (ProcessGroupNCCL).
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
  // Asks `comm` for errors several times per second. Aborts it after an error, or if one wait
  // takes longer than `limit` (0: no limit). `comm` must outlive the watchdog.
  NcclWatchdog(ncclComm* comm, Device device, std::chrono::milliseconds limit);
  ~NcclWatchdog() { stop(); }
  NcclWatchdog(const NcclWatchdog&) = delete;
  NcclWatchdog& operator=(const NcclWatchdog&) = delete;

  // Called by the thread that uses the communicator, before and after it waits for others: in
  // a call of NCCL, or for a stream.
  void begin_wait();
  void end_wait();

  // Why the communicator was aborted; empty if it was not.
  std::string failure() const;
  // From now on, the communicator is not aborted.
  void stop();

 private:
  void run(Device device);
  std::string problem() const;

  ncclComm* comm_;
  std::chrono::milliseconds limit_;
  mutable std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::optional<std::chrono::steady_clock::time_point> waits_since_;
  std::string failure_;
  std::thread thread_;  // declared last, because it uses all members above
};

}  // namespace dist
