// The ring: values, shares, messages and bytes of its two halves and of the whole.
#include "03_all_reduce/ring.hpp"
#include "tests/exercises/03_all_reduce/all_reduce_checks.hpp"

#include <cmath>
#include <cstddef>

namespace dist::exercise {
std::vector<Check> checks_of_ring_reduce_scatter(const OnSpan& solution) {
  return {
      {"shares", "chunk r of rank r holds every rank's share once",
       "follow one chunk. It leaves rank c + 1, is added to at every rank on its way, and "
       "rests at rank c. Only two shares there: what came was not added, or not passed on. A "
       "share twice: a step too many, which one rank alone shows. The sum in a neighbour's "
       "chunk: the walk begins one chunk off",
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
       "as expensive, which is how many ring all-reduces are written",
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
       "receives chunk r - 1 - s straight to its place; nothing is added any more",
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
  return {
      {"shares", "the average holds every rank's share once",
       "every rank must add its share to what has just come and pass that on; and each chunk "
       "is divided by the number of ranks once, after its last share was added",
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
       "sum first, then multiply by 1.0F / comm.size(), once",
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
       [=](Trial& trial) { expect_traffic(trial, solution, whole_of(trial), false); },
       kSendRecvHint},
      {"bytes", "every message is one chunk",
       "2 (N - 1) / N of the tensor per rank: one chunk per message",
       [=](Trial& trial) { expect_traffic(trial, solution, whole_of(trial), true); },
       kSendRecvHint},
      {"same-bits", "all ranks hold the same bits",
       "each chunk must be finished (summed and divided) by one rank and then copied: where "
       "everybody adds or divides by himself, ranks may round differently",
       [=](Trial& trial) {
         std::vector<float> data = inexact_numbers(trial, 997);
         solution(trial.comm(), data);
         expect_same_bits(trial, data);
       },
       kSendRecvHint},
      {"bits", "every element is the sum, then multiplied by 1 / N",
       "add first; then the rank that has finished a chunk multiplies it by 1.0F / "
       "comm.size(). "
       "Dividing each share first, or dividing by N instead of multiplying by 1 / N, rounds "
       "differently, and ./learn mine compares bits",
       [=](Trial& trial) {
         std::vector<float> data = inexact_numbers(trial, 997), expected = data;
         solution(trial.comm(), data);
         all_reduce_ring<float>(trial.comm(), expected, ReduceOp::avg);
         expect_values(trial, data, {0, data.size()},
                       [&](std::size_t i) { return expected[i]; });
       },
       kSendRecvHint},
      large_check(solution),
  };
}

}  // namespace dist::exercise
