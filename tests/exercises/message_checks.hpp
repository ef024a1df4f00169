// Shared by most checks of messages: data that tells where it came from, traffic, and sums.
#pragma once

#include "tests/exercises/exercise.hpp"
#include "tests/exercises/guarded.hpp"
#include "tests/support/counted.hpp"

#include <mpi.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dist::exercise {

inline constexpr std::size_t kLarge = 1 << 20;  // elements: more than MPI buffers

// The `count` elements of data that `rank` starts with.
inline Guarded tracers(const Trial& trial, int rank, std::size_t count) {
  Guarded data(count);
  for (std::size_t i = 0; i < count; ++i) data.span()[i] = trial.value(rank, i);
  return data;
}

inline double sum_over_ranks(const Trial& trial, std::size_t index) {
  double sum = 0;
  for (int rank = 0; rank < trial.size(); ++rank) sum += trial.value(rank, index);
  return sum;
}

// Checks that every element of `data` equals expected(index), within the relative `tolerance`.
template <class Expected>
void expect_values(Trial& trial, std::span<const float> data, const std::string& where,
                   const Expected& expected, double tolerance = 0) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    const double want = expected(i);
    if (std::abs(data[i] - want) <= tolerance * std::abs(want)) continue;
    return trial.wrong(fmt::format("{}{} elements: element {} is {}, expected {}", where,
                                   data.size(), i, data[i], want));
  }
}

inline void expect_intact(Trial& trial, const Guarded& data, const std::string& where) {
  trial.expect(data.intact(), "{}{} elements: something was written out of bounds", where,
               data.span().size());
}

// Called on all ranks. Compares each rank's `data` with rank 0's, bit by bit.
inline void expect_same_bits(Trial& trial, std::span<const float> data,
                             const std::string& where = "") {
  std::vector<float> of_rank_0(data.begin(), data.end());
  MPI_CHECK(
      MPI_Bcast(of_rank_0.data(), mpi_count(data.size()), MPI_FLOAT, 0, trial.comm().get()));
  for (std::size_t i = 0; i < data.size(); ++i) {
    trial.expect(data[i] == of_rank_0[i], "{}element {} is {:.9g} here, but {:.9g} on rank 0",
                 where, i, data[i], of_rank_0[i]);
  }
}

// What `run`, which is called on all ranks, may send. Fields that are not set are not checked.
struct MustSend {
  std::optional<std::uint64_t> messages{}, messages_per_rank{}, bytes_per_rank{}, rounds{};
  std::optional<std::vector<int>> peers_of_rank_0{};
};

// Expects this, and no call of a collective.
inline void expect_traffic(Trial& trial, const std::string& where, const MustSend& must,
                           const std::function<void()>& run) {
  const Traffic traffic = counted(trial.comm(), run);
  const auto equal = [&](const char* what, std::uint64_t got,
                         std::optional<std::uint64_t> want) {
    trial.expect(!want || got == *want, "{}{}: {}, expected {}", where, what, got,
                 want.value_or(0));
  };
  equal("messages in total", traffic.messages, must.messages);
  equal("most messages of a rank", traffic.messages_per_rank, must.messages_per_rank);
  equal("most bytes of a rank", traffic.bytes_per_rank, must.bytes_per_rank);
  equal("rounds", traffic.rounds, must.rounds);
  equal("calls of MPI's collectives", traffic.collectives, 0);
  const std::vector<int> peers = must.peers_of_rank_0.value_or(traffic.peers);
  trial.expect(traffic.peers == peers, "{}rank 0 sends to the ranks {}, expected {}", where,
               fmt::join(traffic.peers, " "), fmt::join(peers, " "));
}

inline void expect_finished(Trial& trial, const std::function<void()>& run) {
  trial.expect(counted(trial.comm(), run).unfinished == 0,
               "sends or receives were started but not waited for");
}

}  // namespace dist::exercise
