// The ring: values, shares, messages and bytes of its two halves and of the whole.
#include "02_broadcast/chunks.hpp"
#include "common/check.hpp"
#include "common/traffic.hpp"
#include "tests/exercises/03_all_reduce/checks.hpp"
#include "tests/exercises/guarded.hpp"
#include "tests/exercises/provenance.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace dist::exercise {
namespace {

constexpr std::size_t kLarge = 1 << 20;

std::vector<std::size_t> sizes(const Trial& trial) {
  const auto n = static_cast<std::size_t>(trial.size());
  return {n, 0, 1, n - 1, n + 1, 3 * n + 1, 997};
}

Guarded tracers(const Trial& trial, std::size_t count) {
  Guarded data(count);
  for (std::size_t i = 0; i < count; ++i) data.span()[i] = trial.value(trial.rank(), i);
  return data;
}

double sum_over_ranks(const Trial& trial, std::size_t index) {
  double sum = 0;
  for (int rank = 0; rank < trial.size(); ++rank) sum += trial.value(rank, index);
  return sum;
}

ChunkRange chunk_of(const Trial& trial, std::size_t count, int index) {
  return chunk_range(count, trial.size(), index);
}

// Elements [range) of `data` must be expected(index), which is rounded to float.
template <class Expected>
void expect_values(Trial& trial, std::span<const float> data, ChunkRange range,
                   const Expected& expected, double tolerance = 0) {
  for (std::size_t i = range.begin; i < range.begin + range.count; ++i) {
    const double want = expected(i);
    if (std::abs(data[i] - want) <= tolerance * std::abs(want)) continue;
    return trial.wrong(fmt::format("{} elements: element {} is {}, must be {}", data.size(), i,
                                   data[i], want));
  }
}

// Every rank's share once, and once only, in elements [range).
void expect_shares(Trial& trial, std::span<const float> data, ChunkRange range, float factor) {
  for (std::size_t i = range.begin; i < range.begin + range.count; ++i) {
    const std::string off = what_is_off(std::round(data[i] * factor), trial.size());
    if (off.empty()) continue;
    return trial.wrong(fmt::format("{} elements: in element {}, {}", data.size(), i, off));
  }
}

void expect_guards(Trial& trial, const Guarded& data) {
  trial.expect(data.intact(), [&] {
    return fmt::format("{} elements: something was written outside of them",
                       data.span().size());
  });
}

struct Costs {
  std::uint64_t messages;  // per rank
  std::uint64_t chunks;    // sent per rank: bytes are this many times 1/N of the tensor
};

Costs half_of(const Trial& trial) {
  const auto n = static_cast<std::uint64_t>(trial.size());
  return {n - 1, n - 1};
}

void expect_traffic(Trial& trial, const OnSpan& solution, const Costs& costs, bool bytes) {
  const auto n = static_cast<std::size_t>(trial.size());
  for (const std::size_t chunk : {0, 5, 1000}) {
    std::vector<float> data(n * chunk, 1.0F);
    const Traffic traffic = count_traffic(trial.comm(), [&] { solution(trial.comm(), data); });
    if (!bytes) {
      trial.expect(traffic.messages_per_rank == costs.messages, [&] {
        return fmt::format("{} elements: {} messages, must be {}", data.size(),
                           traffic.messages_per_rank, costs.messages);
      });
      trial.expect(traffic.collectives == 0, [] { return "a collective of MPI was called"; });
      trial.expect(traffic.peers == (n == 1 ? std::vector<int>{} : std::vector<int>{1}),
                   [&] { return "rank 0 sends to another rank than the one on its right"; });
    } else {
      const std::uint64_t must = costs.chunks * chunk * sizeof(float);
      trial.expect(traffic.bytes_per_rank == must, [&] {
        return fmt::format("{} elements: {} bytes sent, must be {}", data.size(),
                           traffic.bytes_per_rank, must);
      });
    }
  }
}

const std::string kSendRecvHint =
    "MPI_Send may wait until the receiver has come; when everybody sends first, nobody "
    "receives. "
    "It went well for small messages because MPI copied them. Use send_recv, which does both "
    "at "
    "once.";

Check guard_check(const OnSpan& solution) {
  return {"guard-zones", "nothing is written outside of the data",
          "receive exactly in.count elements, to where chunk `in` begins; the last chunks are "
          "shorter than the first when N does not divide the length, or empty",
          [=](Trial& trial) {
            for (const std::size_t count : sizes(trial)) {
              Guarded data = tracers(trial, count);
              solution(trial.comm(), data.span());
              expect_guards(trial, data);
            }
          },
          kSendRecvHint};
}

Check large_check(const OnSpan& solution) {
  return {"large", "it works for messages that MPI does not copy", kSendRecvHint,
          [=](Trial& trial) {
            Guarded data = tracers(trial, kLarge);
            solution(trial.comm(), data.span());
            expect_guards(trial, data);
          },
          kSendRecvHint};
}

}  // namespace

std::vector<Check> checks_of_ring_reduce_scatter(const OnSpan& solution) {
  return {
      {"shares", "chunk r of rank r holds every rank's share once",
       "follow one chunk: it must leave rank c + 1, be added to at every rank on its way, and "
       "rest at rank c. At step s rank r sends chunk r - 1 - s and receives chunk r - 2 - s",
       [=](Trial& trial) {
         const auto n = static_cast<std::size_t>(trial.size());
         for (const std::size_t count : {n, 2 * n}) {
           Guarded data(count, share_of(trial.rank()));
           solution(trial.comm(), data.span());
           expect_shares(trial, data.span(), chunk_of(trial, count, trial.rank()), 1.0F);
         }
       },
       kSendRecvHint},
      guard_check(solution),
      {"values", "chunk r of rank r is the sum, whatever the length",
       "chunks differ in length by one when N does not divide the number of elements: ask "
       "chunk_range for each, do not compute with length / N",
       [=](Trial& trial) {
         for (const std::size_t count : sizes(trial)) {
           Guarded data = tracers(trial, count);
           solution(trial.comm(), data.span());
           expect_values(trial, data.span(), chunk_of(trial, count, trial.rank()),
                         [&](std::size_t i) { return sum_over_ranks(trial, i); });
         }
       },
       kSendRecvHint},
      {"messages", "every rank sends N - 1 messages, all to the right",
       "one send_recv per step, N - 1 steps; the chunk that rests here is not sent again",
       [=](Trial& trial) { expect_traffic(trial, solution, half_of(trial), false); },
       kSendRecvHint},
      {"bytes", "every message is one chunk",
       "send one chunk per step, not the whole tensor: that would be right, too, and N times "
       "as "
       "expensive, which is how many ring all-reduces are written",
       [=](Trial& trial) { expect_traffic(trial, solution, half_of(trial), true); },
       kSendRecvHint},
      large_check(solution),
  };
}

std::vector<Check> checks_of_ring_all_gather(const OnSpan& solution) {
  // Chunk r of rank r is finished; nothing else is.
  const auto before = [](const Trial& trial, std::size_t count) {
    Guarded data(count, -1.0F);
    const ChunkRange own = chunk_of(trial, count, trial.rank());
    for (std::size_t i = own.begin; i < own.begin + own.count; ++i) {
      data.span()[i] = trial.value(trial.rank(), i);
    }
    return data;
  };
  const auto owner = [](const Trial& trial, std::size_t count, std::size_t index) {
    for (int rank = 0; rank < trial.size(); ++rank) {
      const ChunkRange chunk = chunk_of(trial, count, rank);
      if (index >= chunk.begin && index < chunk.begin + chunk.count) return rank;
    }
    return 0;
  };
  return {
      {"values", "all ranks have every finished chunk",
       "at step s rank r sends chunk r - s, the one it received in the step before, and "
       "receives "
       "chunk r - 1 - s straight to its place; nothing is added any more",
       [=](Trial& trial) {
         for (const std::size_t count : sizes(trial)) {
           Guarded data = before(trial, count);
           solution(trial.comm(), data.span());
           expect_values(trial, data.span(), {0, count},
                         [&](std::size_t i) { return trial.value(owner(trial, count, i), i); });
         }
       },
       kSendRecvHint},
      guard_check(solution),
      {"messages", "every rank sends N - 1 messages, all to the right",
       "one send_recv per step, N - 1 steps: after N - 1 steps every chunk has been everywhere",
       [=](Trial& trial) { expect_traffic(trial, solution, half_of(trial), false); },
       kSendRecvHint},
      {"bytes", "every message is one chunk",
       "pass on the chunk that has just come, not everything that you have so far",
       [=](Trial& trial) { expect_traffic(trial, solution, half_of(trial), true); },
       kSendRecvHint},
      large_check(solution),
  };
}

std::vector<Check> checks_of_ring_all_reduce(const OnSpan& solution) {
  const auto whole = [](const Trial& trial) {
    const auto n = static_cast<std::uint64_t>(trial.size());
    return Costs{2 * (n - 1), 2 * (n - 1)};
  };
  return {
      {"shares", "the average holds every rank's share once",
       "every rank must add its share to what has just come and pass that on; and each chunk "
       "is "
       "divided by the number of ranks once, after its last share was added",
       [=](Trial& trial) {
         const auto n = static_cast<std::size_t>(trial.size());
         for (const std::size_t count : {n, 2 * n}) {
           Guarded data(count, share_of(trial.rank()));
           solution(trial.comm(), data.span());
           expect_shares(trial, data.span(), {0, count}, static_cast<float>(n));
         }
       },
       kSendRecvHint},
      guard_check(solution),
      {"values", "every element is the average over all ranks, whatever the length",
       "sum first, then divide by comm.size(), once",
       [=](Trial& trial) {
         for (const std::size_t count : sizes(trial)) {
           Guarded data = tracers(trial, count);
           solution(trial.comm(), data.span());
           expect_values(
               trial, data.span(), {0, count},
               [&](std::size_t i) { return sum_over_ranks(trial, i) / trial.size(); }, 1e-6);
         }
       },
       kSendRecvHint},
      {"messages", "every rank sends 2 (N - 1) messages, all to the right",
       "N - 1 of the reduce-scatter and N - 1 of the all-gather",
       [=](Trial& trial) { expect_traffic(trial, solution, whole(trial), false); },
       kSendRecvHint},
      {"bytes", "every message is one chunk",
       "2 (N - 1) / N of the tensor per rank: one chunk per message",
       [=](Trial& trial) { expect_traffic(trial, solution, whole(trial), true); },
       kSendRecvHint},
      {"same-bits", "all ranks hold the same bits",
       "each chunk must be finished (summed and divided) by one rank and then copied: where "
       "everybody adds or divides by himself, ranks may round differently",
       [=](Trial& trial) {
         const std::size_t count = 997;
         std::vector<float> data(count);
         for (std::size_t i = 0; i < count; ++i) {  // no sum of these is exact
           data[i] =
               1.0F / static_cast<float>(3 * trial.rank() + 7) + 0.1F * static_cast<float>(i);
         }
         solution(trial.comm(), data);
         std::vector<float> of_rank_0 = data;
         MPI_CHECK(MPI_Bcast(of_rank_0.data(), static_cast<int>(count), MPI_FLOAT, 0,
                             trial.comm().get()));
         for (std::size_t i = 0; i < count; ++i) {
           trial.expect(data[i] == of_rank_0[i], [&] {
             return fmt::format("element {} is {:.9g}, on rank 0 {:.9g}", i, data[i],
                                of_rank_0[i]);
           });
         }
       },
       kSendRecvHint},
      large_check(solution),
  };
}

}  // namespace dist::exercise
