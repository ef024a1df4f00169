// Checks of the ring's two halves and of the whole ring: values, shares, messages and bytes.
#include "03_all_reduce/ring.hpp"
#include "tests/exercises/03_all_reduce/all_reduce_checks.hpp"

#include <cmath>
#include <cstddef>

namespace dist::exercise {
std::vector<Check> checks_of_ring_reduce_scatter(const OnSpan& solution) {
  return {
      {"shares", "chunk r on rank r contains every rank's share exactly once",
       "follow one chunk. Chunk c leaves rank c + 1, every rank on its way adds its share, and "
       "it ends at rank c. If it has only two shares, what arrived was not added or not passed "
       "on. If it has a share twice, there was one step too many. If the sum is in a "
       "neighbour's chunk, the chunks start at the wrong rank",
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
      {"values", "chunk r on rank r is the sum, for every length",
       "if N does not divide the number of elements, chunks differ in length by one: call "
       "chunk_range for each chunk instead of computing with length / N",
       [=](Trial& trial) {
         for (const std::size_t count : sizes(trial)) {
           Guarded data = tracers(trial, count);
           solution(trial.comm(), data.span());
           expect_values(trial, data.span(), chunk_of(trial, count, trial.rank()),
                         [&](std::size_t i) { return sum_over_ranks(trial, i); });
         }
       },
       kSendRecvHint},
      {"messages", "every rank sends N - 1 messages, all to its right",
       "use one send_recv per step, for N - 1 steps; a rank's finished chunk is not sent again",
       [=](Trial& trial) { expect_traffic(trial, solution, half_of(trial), false); },
       kSendRecvHint},
      {"bytes", "every message is exactly one chunk",
       "send one chunk per step, not the whole tensor. Whole tensors give the right result at "
       "N times the cost; many published ring all-reduces make this mistake",
       [=](Trial& trial) { expect_traffic(trial, solution, half_of(trial), true); },
       kSendRecvHint},
      large_check(solution),
  };
}

std::vector<Check> checks_of_ring_all_gather(const OnSpan& solution) {
  // On rank r, only chunk r is finished.
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
      {"values", "all ranks get every finished chunk",
       "in step s, rank r sends chunk r - s, which it received in the previous step, and "
       "receives chunk r - 1 - s directly into its place; this half adds nothing",
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
      {"messages", "every rank sends N - 1 messages, all to its right",
       "use one send_recv per step, for N - 1 steps, after which every rank has every chunk",
       [=](Trial& trial) { expect_traffic(trial, solution, half_of(trial), false); },
       kSendRecvHint},
      {"bytes", "every message is exactly one chunk",
       "pass on only the chunk that has just arrived, not everything that you have so far",
       [=](Trial& trial) { expect_traffic(trial, solution, half_of(trial), true); },
       kSendRecvHint},
      large_check(solution),
  };
}

std::vector<Check> checks_of_ring_all_reduce(const OnSpan& solution) {
  return {
      {"shares", "the average contains every rank's share exactly once",
       "every rank must add its share to what has just arrived and pass on the result. Each "
       "chunk is divided by the number of ranks once, after its last share has been added",
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
      {"values", "every element is the average over all ranks, for every length",
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
      {"messages", "every rank sends 2 (N - 1) messages, all to its right",
       "send N - 1 messages in the reduce-scatter and N - 1 in the all-gather",
       [=](Trial& trial) { expect_traffic(trial, solution, whole_of(trial), false); },
       kSendRecvHint},
      {"bytes", "every message is exactly one chunk",
       "each rank must send 2 (N - 1) / N of the tensor: one chunk per message",
       [=](Trial& trial) { expect_traffic(trial, solution, whole_of(trial), true); },
       kSendRecvHint},
      {"same-bits", "all ranks get the same bits",
       "one rank must finish each chunk (sum and divide), and the others must copy it: if "
       "every rank adds or divides for itself, the results may be rounded differently",
       [=](Trial& trial) {
         std::vector<float> data = inexact_numbers(trial, 997);
         solution(trial.comm(), data);
         expect_same_bits(trial, data);
       },
       kSendRecvHint},
      {"bits", "every element is the sum, multiplied by 1 / N afterwards",
       "add first; then the rank that has finished a chunk multiplies it by 1.0F / "
       "comm.size(). Dividing each share first, or dividing by N instead of multiplying by 1 / "
       "N, gives different bits, and ./learn mine compares bits",
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
