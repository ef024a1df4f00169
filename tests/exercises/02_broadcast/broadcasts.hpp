// Helpers shared by the checks of lesson 2's two broadcasts and its reduction.
#pragma once

#include "tests/exercises/02_broadcast/checks.hpp"
#include "tests/exercises/expectations.hpp"
#include "tests/support/counted.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dist::exercise {

inline constexpr std::size_t kLarge = 1 << 20;

// MPI can buffer messages of all these sizes, so only the check "large" depends on buffering.
inline std::vector<std::size_t> sizes(const Trial& trial) {
  const auto n = static_cast<std::size_t>(trial.size());
  return {n, 0, 1, n - 1, n + 1, 97};
}

inline std::uint64_t ceil_log2(int n) {
  return static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(n - 1)));
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

// The memory after the root's data does not hold the guard zones' mark. If it did, a solution
// that sends and receives too much would overwrite the mark with the same value.
inline Check guard_check(const Broadcast& solution, const std::string& hint,
                         const std::string& hang_hint) {
  return {"guard-zones", "nothing is written outside the data", hint,
          [=](Trial& trial) {
            const int root = trial.size() - 1;
            for (const std::size_t count : sizes(trial)) {
              Guarded more = tracers(trial, trial.rank(), count + 1000);
              Guarded data = tracers(trial, trial.rank(), count);
              const bool gives = trial.rank() == root;
              solution(trial.comm(), gives ? more.span().first(count) : data.span(), root);
              expect_intact(trial, data, from_root(root));
            }
          },
          hang_hint};
}

inline void expect_no_collective(Trial& trial, const Traffic& traffic) {
  trial.expect(traffic.collectives == 0, [] { return "an MPI collective was called"; });
}

inline void expect_finished(Trial& trial, const Traffic& traffic) {
  trial.expect(traffic.unfinished == 0, [&] {
    return fmt::format("{} sends or receives were started but not waited for",
                       traffic.unfinished);
  });
}

inline const std::string kCollectiveHint =
    "use only single messages: MPI's own collectives would do the exercise for you";

inline const std::string kWaitsHint =
    "isend and irecv only start an operation: wait() for each before you return, because the "
    "caller continues to use the data";

}  // namespace dist::exercise
