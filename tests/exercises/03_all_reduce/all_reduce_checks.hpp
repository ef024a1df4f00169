// Helpers shared by the checks of all-reduces: sizes, data and expectations.
#pragma once

#include "02_broadcast/chunks.hpp"
#include "common/check.hpp"
#include "tests/exercises/03_all_reduce/checks.hpp"
#include "tests/exercises/guarded.hpp"
#include "tests/exercises/provenance.hpp"
#include "tests/support/counted.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace dist::exercise {

inline constexpr std::size_t kLarge = 1 << 20;

inline std::vector<std::size_t> sizes(const Trial& trial) {
  const auto n = static_cast<std::size_t>(trial.size());
  return {n, 0, 1, n - 1, n + 1, 3 * n + 1, 997};
}

inline Guarded tracers(const Trial& trial, std::size_t count) {
  Guarded data(count);
  for (std::size_t i = 0; i < count; ++i) data.span()[i] = trial.value(trial.rank(), i);
  return data;
}

inline double sum_over_ranks(const Trial& trial, std::size_t index) {
  double sum = 0;
  for (int rank = 0; rank < trial.size(); ++rank) sum += trial.value(rank, index);
  return sum;
}

inline ChunkRange chunk_of(const Trial& trial, std::size_t count, int index) {
  return chunk_range(count, trial.size(), index);
}

// Elements of `data` in `range` must equal expected(index), within the relative `tolerance`.
template <class Expected>
void expect_values(Trial& trial, std::span<const float> data, ChunkRange range,
                   const Expected& expected, double tolerance = 0) {
  for (std::size_t i = range.begin; i < range.begin + range.count; ++i) {
    const double want = expected(i);
    if (std::abs(data[i] - want) <= tolerance * std::abs(want)) continue;
    return trial.wrong(fmt::format("{} elements: element {} is {}, expected {}", data.size(), i,
                                   data[i], want));
  }
}

// Expects every rank's share exactly once in each element in `range`.
inline void expect_shares(Trial& trial, std::span<const float> data, ChunkRange range,
                          float factor) {
  for (std::size_t i = range.begin; i < range.begin + range.count; ++i) {
    const std::string off = what_is_off(std::round(data[i] * factor), trial.size());
    if (off.empty()) continue;
    return trial.wrong(fmt::format("{} elements: in element {}, {}", data.size(), i, off));
  }
}

inline void expect_guards(Trial& trial, const Guarded& data) {
  trial.expect(data.intact(), [&] {
    return fmt::format("{} elements: something was written out of bounds", data.span().size());
  });
}

enum class Side { left, right };

struct Costs {
  std::uint64_t messages;  // per rank
  std::uint64_t chunks;    // sent per rank; each is 1/N of the tensor
};

inline Costs half_of(const Trial& trial) {
  const auto n = static_cast<std::uint64_t>(trial.size());
  return {n - 1, n - 1};
}

inline Costs whole_of(const Trial& trial) {
  const auto n = static_cast<std::uint64_t>(trial.size());
  return {2 * (n - 1), 2 * (n - 1)};
}

inline void expect_traffic(Trial& trial, const OnSpan& solution, const Costs& costs, bool bytes,
                           Side side = Side::right) {
  const int peer = side == Side::right ? 1 : trial.size() - 1;  // of rank 0
  const auto n = static_cast<std::size_t>(trial.size());
  for (const std::size_t chunk : {1, 5, 1000}) {
    std::vector<float> data(n * chunk, 1.0F);
    const Traffic traffic = counted(trial.comm(), [&] { solution(trial.comm(), data); });
    if (!bytes) {
      trial.expect(traffic.messages_per_rank == costs.messages, [&] {
        return fmt::format("{} elements: {} messages, expected {}", data.size(),
                           traffic.messages_per_rank, costs.messages);
      });
      trial.expect(traffic.collectives == 0, [] { return "an MPI collective was called"; });
      trial.expect(
          traffic.peers == (n == 1 ? std::vector<int>{} : std::vector<int>{peer}), [&] {
            return fmt::format("rank 0 sends to a rank other than {}, its {} neighbour", peer,
                               side == Side::right ? "right" : "left");
          });
    } else {
      const std::uint64_t must = costs.chunks * chunk * sizeof(float);
      trial.expect(traffic.bytes_per_rank == must, [&] {
        return fmt::format("{} elements: {} bytes sent, expected {}", data.size(),
                           traffic.bytes_per_rank, must);
      });
    }
  }
}

// Called on all ranks. Compares each rank's `data` with rank 0's, bit by bit.
inline void expect_same_bits(Trial& trial, std::span<const float> data) {
  std::vector<float> of_rank_0(data.begin(), data.end());
  MPI_CHECK(MPI_Bcast(of_rank_0.data(), static_cast<int>(data.size()), MPI_FLOAT, 0,
                      trial.comm().get()));
  for (std::size_t i = 0; i < data.size(); ++i) {
    trial.expect(data[i] == of_rank_0[i], [&] {
      return fmt::format("element {} is {:.9g} here, but {:.9g} on rank 0", i, data[i],
                         of_rank_0[i]);
    });
  }
}

// Numbers whose sums over the ranks are not exact.
inline std::vector<float> inexact_numbers(const Trial& trial, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) {
    data[i] = 1.0F / static_cast<float>(3 * trial.rank() + 7) + 0.1F * static_cast<float>(i);
  }
  return data;
}

inline const std::string kSendRecvHint =
    "MPI_Send may wait until the receiver is ready. If every rank sends first, none receives. "
    "Small messages worked because MPI buffered them. Use send_recv to send and receive at "
    "once";

inline Check guard_check(const OnSpan& solution) {
  return {"guard-zones", "nothing is written outside the data",
          "receive exactly as many elements as the arriving chunk has, and write only to its "
          "place. If N does not divide the length, the last chunks are shorter or empty",
          [=](Trial& trial) {
            for (const std::size_t count : sizes(trial)) {
              Guarded data = tracers(trial, count);
              solution(trial.comm(), data.span());
              expect_guards(trial, data);
            }
          },
          kSendRecvHint};
}

inline Check large_check(const OnSpan& solution) {
  return {"large", "it works for messages too large for MPI to buffer", kSendRecvHint,
          [=](Trial& trial) {
            Guarded data = tracers(trial, kLarge);
            solution(trial.comm(), data.span());
            expect_guards(trial, data);
          },
          kSendRecvHint};
}

}  // namespace dist::exercise
