// Checks of what a ring, or one of its halves, sends.
#pragma once

#include "02_broadcast/chunks.hpp"
#include "tools/exercises/message_checks.hpp"

namespace dist::exercise {

using OnSpan = std::function<void(const Communicator&, std::span<float>)>;

inline ChunkRange chunk_of(const Trial& trial, std::size_t count, int index) {
  return chunk_range(count, trial.size(), index);
}

// The traffic of a ring that goes around once or twice (`halves`).
struct Ring {
  OnSpan solution;
  std::uint64_t halves;
  bool gathers = false;  // if it is one half, whether it is the second

  std::uint64_t most_elements(const Trial& trial, std::size_t count) const {
    if (halves == 2) return ring_elements(count, trial.size());
    std::uint64_t most = 0;  // in each half, a rank sends all chunks but one
    for (int rank = 0; rank < trial.size() && trial.size() > 1; ++rank) {
      most = std::max(most, count - chunk_of(trial, count, rank + (gathers ? 1 : 0)).count);
    }
    return most;
  }
  void expect(Trial& trial, bool bytes) const {
    const std::uint64_t n = trial.n();
    for (const std::uint64_t count : {n, 5 * n, 5 * n + 1, 1001 * n - 1, 1000 * n}) {
      std::vector<float> data(count, 1.0F);
      const std::uint64_t messages = halves * (n - 1);
      MustSend must{.messages_per_rank = messages};
      if (bytes) must = {.bytes_per_rank = most_elements(trial, count) * sizeof(float)};
      if (!bytes && n > 1) must.peers_of_rank_0 = {1};
      expect_traffic(trial, fmt::format("{} elements: ", data.size()), must,
                     [&] { solution(trial.comm(), data); });
    }
  }
  Check messages_check(const std::string& must, const std::string& hint) const {
    return {"messages",
            must,
            hint,
            [ring = *this](Trial& t) { ring.expect(t, false); },
            {{Seen::too_few,
              hint + ". Whole tensors need fewer messages, but N / 2 times as many bytes"}}};
  }
  // Before the sizes at which chunks differ: chunks that travel the other way do not fit there.
  Check rightward_check() const {
    return {
        "rightward", "every rank must send to its right neighbour",
        "a chunk moves one rank to the right in each step: send to comm.right() and receive "
        "from comm.left()",
        [ring = *this](Trial& trial) {
          std::vector<float> data(trial.n(), 1.0F);
          const Traffic traffic = traffic_in(trial, [&] { ring.solution(trial.comm(), data); });
          for (const int peer : traffic.peers) {
            trial.expect(peer == 1 % trial.size(), "rank 0 sends to rank {}, not to rank 1",
                         peer);
          }
        }};
  }
  Check bytes_check(const std::string& hint) const {
    return {"bytes", "every message must be exactly one chunk", hint,
            [ring = *this](Trial& t) { ring.expect(t, true); }};
  }
};

}  // namespace dist::exercise
