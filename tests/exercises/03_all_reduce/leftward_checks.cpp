// Checks of the ring that runs to the left: the ring's own checks in the other direction, and a
// check that shows where a chunk was finished.
#include "tests/exercises/03_all_reduce/all_reduce_checks.hpp"

namespace dist::exercise {
namespace {

// In chunk c, rank c holds 1, and the others hold large numbers whose sum is 0 in any order.
// Added to a large number, the 1 is lost, so it survives only if it is added last.
//
//   chunk 1, size 4:   rank 0 ----> rank 3 ----> rank 2 ----> rank 1
//            share     b            b            -2 b         1
//            sum       b            2 b          0            1
void fill_so_that_the_own_share_must_come_last(const Trial& trial, std::span<float> data) {
  constexpr float kLargeNumber = 1U << 26U;
  const int n = trial.size();
  for (int c = 0; c < n; ++c) {
    const auto chunk = window(data, chunk_of(trial, data.size(), c));
    const int moves = (c - trial.rank() + n) % n;  // of chunk c before it arrives here
    float value = kLargeNumber;
    if (moves == 0) value = 1;
    if (moves == n - 1) value = -kLargeNumber * static_cast<float>(n - 2);
    std::ranges::fill(chunk, value);
  }
}

}  // namespace

std::vector<Check> checks_of_leftward_ring(const OnSpan& solution) {
  const Ring ring{.solution = solution, .halves = 2, .leftward = true};
  const std::vector<Check> checks{
      shares_check(
          solution, "the sum contains every rank's share exactly once",
          "follow one chunk: chunk c starts at rank c - 1; then ranks c - 2, c - 3, ... and "
          "finally rank c add their shares. In step s, rank r sends chunk r + 1 + s and "
          "receives chunk r + 2 + s; in the second half, it sends chunk r + s",
          Part::everything),
      values_check(solution, "every element is the sum over all ranks, for every length",
                   "in step s, chunk r + 2 + s arrives from the right, so add it to your chunk "
                   "r + 2 + s. The receive buffer needs that chunk's length, not the length of "
                   "the chunk that you send: call chunk_range for each chunk",
                   Part::everything),
      guard_check(solution),
      ring.messages_check("every rank sends 2 (N - 1) messages, all to its left",
                          "send N - 1 messages in each half, all to comm.left(), and receive "
                          "from comm.right()"),
      ring.bytes_check(
          "each rank must send 2 (N - 1) / N of the tensor: one chunk per message"),
      same_bits_check(solution,
                      "one rank must finish each chunk, and the others must copy it: if "
                      "every rank adds for itself, the results may be rounded differently"),
      {"finished-at-home", "rank r finishes chunk r by adding its own share last",
       "the sums are right, but the chunks end one rank too early or too late. Chunk c must "
       "start at rank c - 1, so that it has visited all other ranks when it reaches rank c. "
       "This check's data are large numbers that cancel out, and a 1 on rank c, which is lost "
       "unless it is added last",
       [=](Trial& trial) {
         if (trial.size() < 3) return;  // because a + b is b + a
         std::vector<float> data(3 * trial.n());
         fill_so_that_the_own_share_must_come_last(trial, data);
         solution(trial.comm(), data);
         for (int c = 0; c < trial.size(); ++c) {
           const ChunkRange chunk = chunk_of(trial, data.size(), c);
           trial.expect(data[chunk.begin] == 1,
                        "chunk {} is {}; it would be 1 if rank {}'s share had been added last",
                        c, data[chunk.begin], c);
         }
       }},
      large_check(solution),
  };
  return with_hang_hint(checks, kSendRecvHint);
}

}  // namespace dist::exercise
