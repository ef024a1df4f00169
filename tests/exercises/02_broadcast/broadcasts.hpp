// Shared by the checks of lesson 2's two broadcasts and its reduction.
#pragma once

#include "tests/exercises/02_broadcast/checks.hpp"

#include <bit>

namespace dist::exercise {

// Calls visit(count, root) for every root and for lengths that MPI can buffer, so only the
// check "large" depends on buffering.
template <class Visit>
void for_every_root(const Trial& trial, const Visit& visit) {
  const std::size_t n = trial.n();
  for (int root = 0; root < trial.size(); ++root) {
    for (const std::size_t count : {n, 0UL, 1UL, n - 1, n + 1, 97UL}) visit(count, root);
  }
}

inline std::string from_root(int root) {
  return fmt::format("root {}, ", root);
}

// Checks one broadcast: every rank has its own numbers beforehand and the root's afterwards.
inline void check_broadcast(Trial& trial, const Broadcast& solution, std::size_t count,
                            int root) {
  Guarded data = tracers(trial, trial.rank(), count);
  solution(trial.comm(), data.span(), root);
  expect_values(trial, data.span(), from_root(root),
                [&](std::size_t i) { return trial.value(root, i); });
}

inline Check values_check(const Broadcast& solution, const std::string& hint,
                          const std::string& hang_hint = "") {
  return {"values", "the root's numbers reach all ranks, for every root and length", hint,
          [=](Trial& trial) {
            for_every_root(trial, [&](std::size_t count, int root) {
              check_broadcast(trial, solution, count, root);
            });
          },
          hang_hint};
}

// The memory after the root's data does not hold the guard zones' mark. If it did, a solution
// that sends and receives too much would overwrite the mark with the same value.
inline Check guard_check(const Broadcast& solution, const std::string& hint) {
  return {"guard-zones", "nothing is written outside the data", hint, [=](Trial& trial) {
            for_every_root(trial, [&](std::size_t count, int root) {
              Guarded more = tracers(trial, trial.rank(), count + 1000);
              Guarded data = tracers(trial, trial.rank(), count);
              const bool gives = trial.rank() == root;
              solution(trial.comm(), gives ? more.span().first(count) : data.span(), root);
              expect_intact(trial, data, from_root(root));
            });
          }};
}

// Runs a solution on this rank's `data`. The result is not checked.
using Run = std::function<void(const Communicator&, std::span<float> data, int root)>;

inline constexpr std::size_t kChunk = 100;  // elements of each rank's chunk

// Runs a solution on N chunks, for every root, and expects the traffic must(root).
inline void expect_traffic_of(Trial& trial, const Run& run,
                              const std::function<MustSend(int root)>& must) {
  std::vector<float> data(trial.n() * kChunk, 1.0F);
  for (int root = 0; root < trial.size(); ++root) {
    expect_traffic(trial, from_root(root), must(root), [&] { run(trial.comm(), data, root); });
  }
}

inline Check messages_check(const Run& run, const std::string& hint) {
  return {"messages", "N - 1 messages are sent in total", hint, [=](Trial& trial) {
            expect_traffic_of(trial, run,
                              [&](int) { return MustSend{.messages = trial.n() - 1}; });
          }};
}

inline Check rounds_check(const Run& run, const std::string& hint) {
  return {"rounds", "it takes ceil(log2 N) rounds", hint, [=](Trial& trial) {
            expect_traffic_of(trial, run, [&](int) {
              return MustSend{.rounds = std::bit_width(trial.n() - 1)};
            });
          }};
}

inline Check collective_check(const Run& run) {
  return {"no-collective", "it uses single messages, not collectives",
          "use only single messages: MPI's own collectives would do the exercise for you",
          [=](Trial& trial) { expect_traffic_of(trial, run, [](int) { return MustSend{}; }); }};
}

inline Check waits_check(const Run& run) {
  return {"waits", kWaitsMust,
          "isend and irecv only start an operation: wait() for each before you return, because "
          "the caller continues to use the data",
          [=](Trial& trial) {
            std::vector<float> data(200, 1.0F);
            expect_finished(trial, [&] { run(trial.comm(), data, 0); });
          }};
}

inline const std::string kVranksHint =
    "count vranks from the root: vrank = (rank - root + size) % size decides who sends and "
    "receives, and (vrank + root) % size is the rank with that vrank";
inline const std::string kVranksHangHint =
    "do not confuse vranks and ranks: vrank = (rank - root + size) % size decides what a rank "
    "does, and (vrank + root) % size is the rank to pass to send and recv. The report says who "
    "waits for whom";
inline const std::string kLargeHangHint =
    "send may wait until the receiver is ready: if two ranks both start by sending to each "
    "other, both wait forever";

}  // namespace dist::exercise
