// What a collective of ours costs in messages: counted in the real run, not from a formula.
#pragma once

#include "common/communicator.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace dist {

struct Traffic {
  std::uint64_t messages = 0;  // of all ranks together, point to point
  // The most that any rank sent.
  std::uint64_t messages_per_rank = 0;
  std::uint64_t bytes_per_rank = 0;
  std::vector<int> peers;  // rank 0's destinations, ascending
  // The longest chain of messages that had to wait for each other. A rank sends one message at
  // a time and receives one at a time, and may do both at once: a send_recv counts once.
  std::uint64_t rounds = 0;
  std::uint64_t collectives = 0;  // the most calls of MPI's own collectives by any rank
  // Sends and receives, of all ranks, that were started and not waited for when the body ended.
  std::uint64_t unfinished = 0;

  bool operator==(const Traffic&) const = default;
};

// Runs body() and counts its messages. Called on all ranks of `comm`; the same result on all.
// Every message that is sent in `body` must be received in it. Does not count within a count.
Traffic count_traffic(const Communicator& comm, const std::function<void()>& body);

}  // namespace dist
