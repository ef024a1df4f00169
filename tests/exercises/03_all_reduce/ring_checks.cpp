// Checks of the ring's two halves and of the whole ring: values, shares, messages and bytes.
#include "03_all_reduce/ring.hpp"
#include "tests/exercises/03_all_reduce/all_reduce_checks.hpp"

namespace dist::exercise {

std::vector<Check> checks_of_ring_reduce_scatter(const OnSpan& solution) {
  const Ring ring{.solution = solution, .halves = 1};
  const std::vector<Check> checks{
      shares_check(
          solution, "chunk r on rank r contains every rank's share exactly once",
          "follow one chunk. Chunk c leaves rank c + 1, every rank on its way adds its share, "
          "and it ends at rank c. If it has one share, what arrived was not added, or the sum "
          "is in a neighbour's chunk: the chunks start at the wrong rank. If it has two, what "
          "arrived was not passed on. If it has a share twice, there was one step too many",
          Part::own_chunk),
      guard_check(solution),
      values_check(solution, "chunk r on rank r is the sum, for every length",
                   "if N does not divide the number of elements, chunks differ in length by "
                   "one: call chunk_range for each chunk instead of computing with length / N",
                   Part::own_chunk),
      ring.messages_check("every rank sends N - 1 messages, all to its right",
                          "use one send_recv per step, for N - 1 steps; a rank's finished "
                          "chunk is not sent again"),
      ring.bytes_check(
          "send one chunk per step, not the whole tensor. Whole tensors give the right result "
          "at N times the cost; many published ring all-reduces make this mistake"),
      large_check(solution),
  };
  return with_hang_hint(checks, kSendRecvHint);
}

std::vector<Check> checks_of_ring_all_gather(const OnSpan& solution) {
  const Ring ring{.solution = solution, .halves = 1};
  const std::vector<Check> checks{
      {"values", "all ranks get every finished chunk",
       "in step s = 0 .. N - 2, rank r sends chunk r - s, its own at first, to the right, and "
       "receives chunk r - 1 - s directly into its place; this half adds nothing",
       [=](Trial& trial) {
         for (const std::size_t count : sizes(trial)) {
           // On rank r, only chunk r is finished.
           Guarded data(count, -1.0F);
           std::vector<double> finished(count);
           for (int rank = 0; rank < trial.size(); ++rank) {
             const ChunkRange chunk = chunk_of(trial, count, rank);
             for (std::size_t i = chunk.begin; i < chunk.begin + chunk.count; ++i) {
               finished[i] = trial.value(rank, i);
               if (rank == trial.rank()) data.span()[i] = trial.value(rank, i);
             }
           }
           solution(trial.comm(), data.span());
           expect_values(trial, data.span(), "", [&](std::size_t i) { return finished[i]; });
         }
       }},
      guard_check(solution),
      ring.messages_check("every rank sends N - 1 messages, all to its right",
                          "use one send_recv per step, for N - 1 steps, after which every rank "
                          "has every chunk"),
      ring.bytes_check(
          "pass on only the chunk that has just arrived, not everything that you have so far"),
      large_check(solution),
  };
  return with_hang_hint(checks, kSendRecvHint);
}

std::vector<Check> checks_of_ring_all_reduce(const OnSpan& solution) {
  const Ring ring{.solution = solution, .halves = 2};
  const std::vector<Check> checks{
      shares_check(
          solution, "the average contains every rank's share exactly once",
          "every rank must add its share to what has just arrived and pass on the result. Each "
          "chunk is multiplied by 1.0F / comm.size() once, after its last share was added",
          Part::everything, /*average=*/true),
      guard_check(solution),
      values_check(solution, "every element is the average over all ranks, for every length",
                   "sum first, then multiply by 1.0F / comm.size(), once", Part::everything,
                   /*average=*/true),
      ring.messages_check("every rank sends 2 (N - 1) messages, all to its right",
                          "send N - 1 messages in the reduce-scatter and N - 1 in the "
                          "all-gather"),
      ring.bytes_check(
          "each rank must send 2 (N - 1) / N of the tensor: one chunk per message"),
      same_bits_check(
          solution,
          "one rank must finish each chunk (sum and divide), and the others must copy it: if "
          "every rank adds or divides for itself, the results may be rounded differently"),
      {"bits", "every element is the sum, multiplied by 1 / N afterwards",
       "add first; then the rank that has finished a chunk multiplies it by 1.0F / "
       "comm.size(). Dividing each share first, or dividing by N instead of multiplying by 1 / "
       "N, gives different bits, and ./learn mine compares bits",
       [=](Trial& trial) {
         std::vector<float> data = inexact_numbers(trial, 997), expected = data;
         solution(trial.comm(), data);
         all_reduce_ring<float>(trial.comm(), expected, ReduceOp::avg);
         expect_values(trial, data, "", [&](std::size_t i) { return expected[i]; });
       }},
      large_check(solution),
  };
  return with_hang_hint(checks, kSendRecvHint);
}

}  // namespace dist::exercise
