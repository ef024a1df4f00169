// Owns NCCL's communicator, from ncclCommInitRank to ncclCommDestroy.
//
// The communicator is blocking: a call returns once its work is queued. The first exchange with
// a rank also connects the two GPUs, for which the call waits until that rank makes it, too.
//
// NCCL's unique id must travel from rank 0 to the other ranks. Lesson 1 sends it to each rank
// (nccl_send_recv.hpp); later lessons broadcast it (02_broadcast/connect_nccl.hpp).
#pragma once

#include "01_send_recv/gpu/hang_timeout.hpp"
#include "01_send_recv/gpu/nccl_watchdog.hpp"
#include "common/communicator.hpp"
#include "common/stream.hpp"
#include "common/tensor.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

struct ncclComm;  // what ncclComm_t points to

namespace dist {

// An ncclUniqueId: 128 bytes that rank 0 creates, and that every rank needs in order to join.
using NcclId = std::array<char, 128>;

// Called on one rank.
NcclId make_nccl_id();

// Move-only. All ranks create and destroy it together. Used by one thread at a time.
class NcclCommunicator {
 public:
  // Waits until all `size` ranks have called the constructor with rank 0's id. From then on,
  // a watchdog ends each call and each wait for the GPU that takes longer than `limit` (0: no
  // limit), and all of them if NCCL reports an error. They then throw Error. The default is
  // longer than --timeout, so that the watch reports first: it can say which rank is missing.
  NcclCommunicator(const NcclId& id, int rank, int size, Device device,
                   std::chrono::milliseconds limit = 2 * hang_timeout());
  NcclCommunicator(NcclCommunicator&& other) noexcept;
  NcclCommunicator& operator=(NcclCommunicator&& other) noexcept;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  ~NcclCommunicator();

  int rank() const { return rank_; }
  int size() const { return size_; }
  Device device() const { return device_; }
  ncclComm* get() const { return comm_; }

  // Returns memory from NCCL's own allocator, registered with this communicator. Where the
  // hardware allows it, a collective on this memory needs no copy into NCCL's buffers (see
  // "User Buffer Registration" in the NCCL User Guide). If one rank passes registered memory,
  // all ranks must, at the same offset from its beginning. The memory may outlive the
  // communicator. Called on one rank; the contents are undefined. Before NCCL 2.19, this is
  // ordinary GPU memory.
  std::shared_ptr<void> allocate(std::size_t bytes);

  // Waits on the host until `stream` is done. Unlike Stream::synchronize, this does not wait
  // forever for a rank that has died or makes a different call.
  void synchronize(const Stream& stream) { synchronize(stream.record_event()); }
  // Waits in the same way, but only for `event`.
  void synchronize(const Event& event);

  // NCCL_CHECK calls these before and after a call of NCCL. Both throw Error if the
  // watchdog has ended all waits.
  void begin_call();
  void end_call();

 private:
  void throw_if_failed() const;

  ncclComm* comm_ = nullptr;
  // Exists while comm_ can deregister memory.
  std::shared_ptr<NcclWatchdog> watchdog_;
  int rank_ = 0;
  int size_ = 1;
  Device device_;
  // Exists during a call: any call may have to connect GPUs, which takes seconds on a large
  // machine.
  std::optional<StartScope> starting_;
};

}  // namespace dist
