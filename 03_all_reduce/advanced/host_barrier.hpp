// What this file adds: a barrier of the ranks of one host, without a message: every rank has a
// seat in shared memory, writes there how often it came, and looks at the others' seats.
// Builds on: host_memory.
// Look at: wait(), where a rank that has waited long gives its core away and is woken; and
// meet(), which finds out that two ranks came for different things.
#pragma once

#include "03_all_reduce/advanced/host_memory.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

namespace dist {

class HostBarrier {
 public:
  // Called on all ranks of `comm`, which are on one host and which must outlive this. `limit`
  // is how long a rank waits for the others before it gives up. It is counted in the waiter's
  // own ticks: a process that was suspended, or sits in a debugger, has not waited meanwhile.
  explicit HostBarrier(const Communicator& comm,
                       std::chrono::milliseconds limit = std::chrono::seconds(120));

  // Called on all ranks: returns when all have called it, and everything that they wrote to
  // shared memory before is visible. Throws Error, naming whom it waited for, past the limit.
  void wait();

  // What a rank comes to do. Two that differ would read each other's numbers as something else.
  struct Call {
    std::uint64_t bytes;
    std::uint64_t place;  // which memory: 0 the rank's own, else a number of registered memory
    std::uint32_t op;
    std::uint32_t type;
    bool operator==(const Call&) const = default;
  };
  // wait(), and throws Error, on all ranks, if not all came with an equal `call`.
  void meet(const Call& call);

  // Fewer cores than ranks: who waits, keeps somebody else from coming.
  bool crowded() const { return crowded_; }

 private:
  // One cache line per rank, written by that rank alone: no write of one takes a line from
  // under another's hands.
  struct alignas(64) Seat {
    std::uint32_t arrived;
    // Two, in turns: a fast rank may be at its next call while a slow one reads this one's. It
    // cannot be two calls ahead, as the next one waits for the slow one.
    std::array<Call, 2> calls;
  };
  // Whoever sleeps, sleeps here.
  struct alignas(64) Bed {
    std::uint32_t round;
    std::uint32_t sleepers;
  };

  Seat& seat(int rank) const;
  Bed& bed() const;
  bool all_arrived();
  void wake_sleepers() const;
  void sleep_until_all_arrived();
  [[noreturn]] void give_up() const;

  const Communicator& comm_;
  int rank_;
  int size_;
  std::chrono::milliseconds limit_;
  bool crowded_;
  HostMemory memory_;
  std::uint32_t round_ = 0;
  std::uint64_t calls_ = 0;
  int seen_ = 0;  // ranks 0 .. seen_ - 1 have arrived in this round
};

}  // namespace dist
