// Shared by the checks of all-reduces and of their halves.
#pragma once

#include "02_broadcast/chunks.hpp"
#include "tests/exercises/03_all_reduce/checks.hpp"

namespace dist::exercise {

inline std::vector<std::size_t> sizes(const Trial& trial) {
  const std::size_t n = trial.n();
  return {n, 0, 1, n - 1, n + 1, 3 * n + 1, 997};
}

inline ChunkRange chunk_of(const Trial& trial, std::size_t count, int index) {
  return chunk_range(count, trial.size(), index);
}

// The elements that must be right on this rank: its own chunk, or everything.
enum class Part { own_chunk, everything };

inline ChunkRange range_of(const Trial& trial, std::size_t count, Part part) {
  return part == Part::everything ? ChunkRange{0, count} : chunk_of(trial, count, trial.rank());
}

// Expects every rank's share exactly once in each element of the part.
inline Check shares_check(const OnSpan& solution, const std::string& must,
                          const std::string& hint, Part part, bool average = false) {
  return {"shares", must, hint, [=](Trial& trial) {
            for (const std::size_t count : {trial.n(), 2 * trial.n()}) {
              Guarded data(count, share_of(trial.rank()));
              solution(trial.comm(), data.span());
              const auto factor = static_cast<float>(average ? trial.size() : 1);
              const ChunkRange range = range_of(trial, count, part);
              for (std::size_t i = range.begin; i < range.begin + range.count; ++i) {
                const std::string off = what_is_off(data.span()[i] * factor, trial.size());
                trial.expect(off.empty(), "{} elements: in element {}, {}", count, i, off);
              }
            }
          }};
}

inline Check values_check(const OnSpan& solution, const std::string& must,
                          const std::string& hint, Part part, bool average = false) {
  return {"values", must, hint, [=](Trial& trial) {
            for (const std::size_t count : sizes(trial)) {
              Guarded data = tracers(trial, trial.rank(), count);
              solution(trial.comm(), data.span());
              const ChunkRange range = range_of(trial, count, part);
              expect_values(
                  trial, data.span(), "",
                  [&](std::size_t i) {
                    if (i - range.begin >= range.count) return double{data.span()[i]};
                    return average ? trial.mean(i) : trial.sum(i);
                  },
                  average ? 1e-6 : 0);
            }
          }};
}

inline const std::string kSendRecvHint =
    "MPI_Send may wait until the receiver is ready. If every rank sends first, none receives. "
    "Small messages worked because MPI buffered them. Use send_recv to send and receive at "
    "once";

// Calls the solution with `count` numbers, and expects nothing outside them to change.
inline void expect_guards(Trial& trial, const OnSpan& solution, std::size_t count) {
  Guarded data = tracers(trial, trial.rank(), count);
  solution(trial.comm(), data.span());
  expect_intact(trial, data, "");
}

inline Check guard_check(const OnSpan& solution) {
  return {"guard-zones", "nothing is written outside the data",
          "receive exactly as many elements as the arriving chunk has, and write only to its "
          "place. If N does not divide the length, the first chunks are one longer",
          [=](Trial& trial) {
            for (const std::size_t count : sizes(trial)) expect_guards(trial, solution, count);
          }};
}

inline Check large_check(const OnSpan& solution) {
  return {"large", kLargeMust, kSendRecvHint,
          [=](Trial& trial) { expect_guards(trial, solution, kLarge); }};
}

// Numbers whose sums over the ranks are not exact.
inline std::vector<float> inexact_numbers(const Trial& trial, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) {
    data[i] = 1.0F / static_cast<float>(3 * trial.rank() + 7) + 0.1F * static_cast<float>(i);
  }
  return data;
}

inline Check same_bits_check(const OnSpan& solution, const std::string& hint) {
  return {"same-bits", kSameBitsMust, hint, [=](Trial& trial) {
            std::vector<float> data = inexact_numbers(trial, 997);
            solution(trial.comm(), data);
            expect_same_bits(trial, data);
          }};
}

// The traffic of a ring that goes around once or twice (`halves`).
struct Ring {
  OnSpan solution;
  std::uint64_t halves;

  void expect(Trial& trial, bool bytes) const {
    const std::uint64_t n = trial.n();
    for (const std::uint64_t chunk : {1, 5, 1000}) {
      std::vector<float> data(n * chunk, 1.0F);
      const std::uint64_t messages = halves * (n - 1);
      MustSend must{.messages_per_rank = messages};
      if (bytes) must = {.bytes_per_rank = messages * chunk * sizeof(float)};
      if (!bytes && n > 1) must.peers_of_rank_0 = {1};
      expect_traffic(trial, fmt::format("{} elements: ", data.size()), must,
                     [&] { solution(trial.comm(), data); });
    }
  }
  Check messages_check(const std::string& must, const std::string& hint) const {
    return {"messages", must, hint, [ring = *this](Trial& t) { ring.expect(t, false); }};
  }
  Check bytes_check(const std::string& hint) const {
    return {"bytes", "every message is exactly one chunk", hint,
            [ring = *this](Trial& t) { ring.expect(t, true); }};
  }
};

}  // namespace dist::exercise
