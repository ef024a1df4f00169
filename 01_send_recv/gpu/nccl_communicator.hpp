// Owns NCCL's communicator, from ncclCommInitRank to ncclCommDestroy.
//
// NCCL's unique id must travel from rank 0 to the other ranks. Lesson 1 sends it to each rank
// (nccl_send_recv.hpp); later lessons broadcast it (02_broadcast/connect_nccl.hpp).
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

// An ncclUniqueId: 128 bytes that rank 0 creates, and that every rank needs in order to join.
using NcclId = std::array<char, 128>;

// Called on one rank.
NcclId make_nccl_id();

// Move-only. All ranks create and destroy it together. Used by one thread at a time.
class NcclCommunicator {
 public:
  // Waits until all `size` ranks have called the constructor with rank 0's id. `limit` is how
  // long this and any later call may take before the communicator is aborted.
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

  // Returns memory from NCCL's own allocator, registered with this communicator. Where the
  // hardware allows it, a collective on this memory needs no copy into NCCL's buffers (see
  // "User Buffer Registration" in the NCCL User Guide). All ranks must then pass registered
  // memory, at the same offset from its beginning. The memory may outlive the communicator.
  // Called on one rank; the contents are undefined. Before NCCL 2.19, this is ordinary GPU
  // memory.
  std::shared_ptr<void> allocate(std::size_t bytes);

  // Waits on the host until `stream` is done. Unlike Stream::synchronize, this does not wait
  // forever for a rank that has died: after an error in NCCL, or when the limit has passed, it
  // aborts the communicator and throws Error.
  void synchronize(const Stream& stream) { synchronize(stream.record_event()); }
  // Waits in the same way, but only for `event`.
  void synchronize(const Event& event);
  // Waits in the same way for a call that is still in progress.
  void wait_for_call();

 private:
  // Returns true while a call is in progress. Throws Error if NCCL reports an error, or if more
  // time than the limit has passed since `begin`.
  bool in_progress_since(std::chrono::steady_clock::time_point begin);
  [[noreturn]] void give_up(const std::string& reason);

  ncclComm* comm_ = nullptr;
  std::shared_ptr<void> alive_;  // exists while comm_ can still deregister memory
  int rank_ = 0;
  int size_ = 1;
  Device device_;
  std::chrono::milliseconds limit_{};
};

}  // namespace dist
