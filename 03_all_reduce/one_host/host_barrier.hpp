// What this file adds: a barrier for the ranks of one host, without messages. Every rank has an
// entry in shared memory, counts its arrivals there, and reads the other ranks' counts.
// Builds on: host_memory.
// Look at: meet(), which notices when two ranks make different calls.
#pragma once

#include "03_all_reduce/one_host/host_memory.hpp"

#include <array>
#include <chrono>
#include <cstdint>

namespace dist {

class HostBarrier {
 public:
  // Called on all ranks of `comm`, which must all be on one host. `comm` must outlive this
  // object. A rank stops waiting for the others after `limit`. Any time during which a process
  // was suspended or stopped in a debugger does not count.
  explicit HostBarrier(const Communicator& comm,
                       std::chrono::milliseconds limit = std::chrono::seconds(120));

  // Called on all ranks: returns once all ranks have called it and all their earlier writes to
  // shared memory are visible. After the limit it throws an Error that names the missing ranks.
  void wait();

  // Describes a rank's call. Ranks with different calls would misread each other's numbers.
  struct Call {
    std::uint64_t bytes;
    std::uint64_t memory;  // identifies registered memory; 0 for ordinary memory
    std::uint32_t op, type;
    bool operator==(const Call&) const = default;
  };
  // Like wait(), but throws an Error on all ranks if they pass different calls.
  void meet(const Call& call);

 private:
  // Each rank writes only to its own cache line, so no write invalidates another writer's line.
  struct alignas(64) Entry {
    std::uint32_t arrived;
    int world_rank;  // the number by which mpirun and all error messages call this rank
    // Used alternately: a fast rank may already write its next call while a slow rank still
    // reads the current one. No rank can be two calls ahead: the next waits for the slow rank.
    std::array<Call, 2> calls;
  };

  Entry& entry(int rank) const { return *reinterpret_cast<Entry*>(memory_.of(rank)); }
  bool has_arrived(int rank) const;
  void wait_for(int rank);
  void sleep_until_arrived(int rank);

  const Communicator& comm_;
  std::chrono::milliseconds limit_;
  HostMemory memory_;
  bool crowded_ = false;  // more ranks than cores: a polling rank may keep another from running
  std::uint32_t round_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace dist
