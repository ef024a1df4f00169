// Owns NCCL's communicator, from ncclCommInitRank to ncclCommDestroy.
//
// The communicator is blocking: a call returns once its work is queued. The first exchange with
// a rank also connects the two GPUs, for which the call waits until that rank makes it, too.
//
// NCCL's unique id must travel from rank 0 to the other ranks. Lesson 1 sends it to each rank
// (nccl_send_recv.hpp); later lessons broadcast it (02_broadcast/nccl_broadcast.hpp).
#pragma once

#include "common/build_config.hpp"
#include "common/communicator.hpp"
#include "common/device.hpp"
#include "common/stream.hpp"
#include "common/watch.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#if DIST_WITH_NCCL
#include <nccl.h>
#endif

struct ncclComm;  // what ncclComm_t points to

namespace dist {

// An ncclUniqueId: 128 bytes that rank 0 creates, and that every rank needs in order to join.
using NcclId = std::array<char, 128>;

// Called on one rank.
NcclId make_nccl_id();

// Whether the ranks of a communicator can use NCCL together, and why: a sentence for display.
struct NcclSupport {
  bool possible = false;
  std::string reason;
};
// Called on all ranks; all get the same answer. Two ranks on one GPU are refused here, because
// NCCL would refuse them while it starts. NCCL 2.30 and newer allow them if the environment
// contains NCCL_MULTI_RANK_GPU_ENABLE=1. A library that lacks a function is refused, too.
NcclSupport can_use_nccl(const Communicator& comm, Device device);

// The version of the library that was loaded, and of the header if it is a different one.
std::string nccl_version();

// A thread that watches one NCCL communicator, so that a wait for another rank always ends.
// Only a different thread can end such a wait (PyTorch's ProcessGroupNCCL has one, too).
//
// ncclCommAbort ends all waits on the GPU, also those of work that runs later, such as queued
// replays of a graph. But it frees the communicator, so it must not run during a call. A call
// is ended by ncclCommRevoke instead, which frees nothing, and which ends only the work that
// NCCL knows of. NCCL has had it since 2.28.7; before that, the watch reports an endless call.
class NcclWatchdog {
 public:
  // Asks `comm` for errors several times per second. Ends all its waits after an error, or if
  // one wait takes longer than `limit` (0: no limit). `comm` must outlive the watchdog.
  NcclWatchdog(ncclComm* comm, Device device, std::chrono::milliseconds limit);
  ~NcclWatchdog() { stop(); }
  NcclWatchdog(NcclWatchdog&&) = delete;

  // Whether it can end a wait within a call of NCCL.
  static bool can_end_calls();

  // Called by the thread that uses the communicator, before and after each call of NCCL.
  void begin_call();
  void end_call();

  // From now on, the limit of a wait (0: none).
  void set_limit(std::chrono::milliseconds limit);

  // Why all waits were ended; empty if they were not. Then the communicator must not be used.
  std::string failure() const;
  // Whether the communicator was aborted, and thus freed.
  bool has_aborted() const;
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
  // Exists during a call, which may connect GPUs for the first time. That can take seconds.
  std::optional<StartScope> starting_;
  std::string failure_;
  bool aborts_ = false;
  std::thread thread_;  // declared last, because it uses all members above
};

// Move-only. All ranks create and destroy it together. Used by one thread at a time. Graphs
// that captured its calls must be destroyed before it.
class NcclCommunicator {
 public:
  // Waits until all `size` ranks have called the constructor with rank 0's id. From then on,
  // a watchdog ends each call and each wait for the GPU that takes longer than `limit` (0: no
  // limit), and all of them if NCCL reports an error. They then throw Error. The default is
  // longer than --timeout, so that the watch reports first: it can say which rank is missing.
  NcclCommunicator(const NcclId& id, int rank, int size, Device device,
                   std::chrono::milliseconds limit = default_limit());
  NcclCommunicator(NcclCommunicator&&) = default;  // leaves the other without a watchdog
  ~NcclCommunicator();

  int rank() const { return rank_; }
  int size() const { return size_; }
  Device device() const { return device_; }
  ncclComm* get() const { return comm_; }

  // Returns memory from NCCL's own allocator, registered with this communicator (before NCCL
  // 2.19: ordinary GPU memory). Where the hardware allows it, a sum or an all-gather on it
  // needs no copy into NCCL's buffers ("User Buffer Registration" in the NCCL User Guide). An
  // average does not profit: up to 2.30 at least, NCCL multiplies before it adds, which its
  // registered kernels and the switches (NVLink SHARP) cannot do. If one rank passes registered
  // memory, all ranks must, at the same offset. The memory may outlive the communicator. Called
  // on one rank; the contents are undefined.
  std::shared_ptr<void> allocate(std::size_t bytes);

  // 0: no limit; otherwise longer than what the watch allows.
  static std::chrono::milliseconds default_limit();
  // From now on, the limit of a call or a wait.
  void set_limit(std::chrono::milliseconds limit = default_limit());

  // Ends all work without waiting for other ranks, which may have failed. Afterwards, only the
  // destructor may be called.
  void abort();

  // Waits on the host until `stream` is done, or only for `event`. Unlike Stream::synchronize,
  // this does not wait forever for a rank that has died or makes a different call.
  void synchronize(const Stream& stream) { synchronize(stream.record_event()); }
  void synchronize(const Event& event);

  // Whether queued work has ever been completed.
  bool has_worked() const { return has_worked_; }

  // NCCL_CHECK calls these around each call. Both throw Error if all waits have been ended.
  void begin_call();
  void end_call();

 private:
  void throw_if_failed() const;

  ncclComm* comm_ = nullptr;
  std::shared_ptr<NcclWatchdog> watchdog_;  // exists while comm_ can deregister memory
  int rank_ = 0, size_ = 1;
  Device device_;
  bool has_worked_ = false;
};

#if DIST_WITH_NCCL
// Ends the call that begin_call began. Throws Error with NCCL's own message if NCCL reports an
// error, or if the watchdog has ended the call.
void check_nccl(NcclCommunicator& nccl, ncclResult_t status, const char* call, const char* file,
                int line);
#define NCCL_CHECK(nccl, call) \
  ::dist::check_nccl((nccl), ((nccl).begin_call(), (call)), #call, __FILE__, __LINE__)
#endif

}  // namespace dist
