// NCCL's communicator, owned: from ncclCommInitRank to ncclCommDestroy.
//
// Its unique id must get from rank 0 to the others. Here that takes a message to each
// (nccl_send_recv.hpp); from lesson 02 on it is broadcast (02_broadcast/connect_nccl.hpp).
#pragma once

#include "common/communicator.hpp"
#include "common/stream.hpp"
#include "common/tensor.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

struct ncclComm;  // what ncclComm_t points to

namespace dist {

// A ncclUniqueId: 128 bytes that rank 0 makes and every rank must hold before it can join.
using NcclId = std::array<char, 128>;

// Called on one rank.
NcclId make_nccl_id();

// Move-only. Made and destroyed on all ranks together. Used by one thread at a time.
class NcclCommunicator {
 public:
  // Waits until all `size` ranks have called it with rank 0's id. `limit` is how long this and
  // any later call may take before the communicator is given up.
  NcclCommunicator(const NcclId& id, int rank, int size, Device device,
                   std::chrono::milliseconds limit = std::chrono::seconds(60));
  NcclCommunicator(NcclCommunicator&& other) noexcept;
  NcclCommunicator& operator=(NcclCommunicator&& other) noexcept;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  ~NcclCommunicator();

  int rank() const { return rank_; }
  int size() const { return size_; }
  Device device() const { return device_; }
  ncclComm* get() const { return comm_; }

  // Memory of NCCL's own allocator, registered with this communicator: a collective on it needs
  // no copy into NCCL's own buffers where the hardware can do without (the NCCL User Guide's
  // "User Buffer Registration"). All ranks must then pass registered memory, each at the same
  // distance from its beginning. It may outlive the communicator. Called on one rank; contents
  // undefined. Before NCCL 2.19, which has none of this: ordinary GPU memory.
  std::shared_ptr<void> allocate(std::size_t bytes);

  // The host waits until `stream` is done. Unlike Stream::synchronize it does not wait for ever
  // for a rank that is gone: an error of NCCL's, or more time than the limit, aborts the
  // communicator and throws Error.
  void synchronize(const Stream& stream) { synchronize(stream.record_event()); }
  // The same up to a mark.
  void synchronize(const Event& event);
  // The same for a call that is still in progress.
  void wait_for_call();

 private:
  // Throws if NCCL reports an error or `begin` is longer ago than the limit; true while a call
  // is in progress.
  bool in_progress_since(std::chrono::steady_clock::time_point begin);
  [[noreturn]] void give_up(const std::string& reason);

  ncclComm* comm_ = nullptr;
  std::shared_ptr<void> alive_;  // as long as comm_ may still be asked to forget memory
  int rank_ = 0;
  int size_ = 1;
  Device device_;
  std::chrono::milliseconds limit_{};
};

}  // namespace dist
