// The ring that runs to the left: the same checks, the other way round, and one that tells
// where a chunk was finished.
#include "tests/exercises/03_all_reduce/all_reduce_checks.hpp"

#include <cstddef>

namespace dist::exercise {
namespace {

// In chunk c rank c holds 1, and the others hold large numbers whose sum is 0, whatever their
// order. Next to a large number a 1 is lost: it survives only if it is added last.
//
//   chunk 1, size 4:   rank 0 ----> rank 3 ----> rank 2 ----> rank 1
//            share     b            b            -2 b         1
//            sum       b            2 b          0            1
void fill_so_that_the_own_share_must_come_last(const Trial& trial, std::span<float> data) {
  constexpr float kLargeNumber = 1U << 26U;
  const int n = trial.size();
  for (int c = 0; c < n; ++c) {
    const auto chunk = window(data, chunk_of(trial, data.size(), c));
    const int moves = (c - trial.rank() + n) % n;  // chunk c's, until it comes here
    float value = kLargeNumber;
    if (moves == 0) value = 1;
    if (moves == n - 1) value = -kLargeNumber * static_cast<float>(n - 2);
    std::ranges::fill(chunk, value);
  }
}

}  // namespace

std::vector<Check> checks_of_leftward_ring(const OnSpan& solution) {
  return {
      {"shares", "the sum holds every rank's share once",
       "follow one chunk: chunk c begins at rank c - 1, is added to at c - 2, c - 3, ... and "
       "at last at c. At step s rank r sends chunk r + 1 + s and receives chunk r + 2 + s; in "
       "the second half it sends chunk r + s",
       [=](Trial& trial) {
         const auto n = static_cast<std::size_t>(trial.size());
         for (const std::size_t count : {n, 2 * n}) {
           Guarded data(count, share_of(trial.rank()));
           solution(trial.comm(), data.span());
           expect_shares(trial, data.span(), {0, count}, 1.0F);
         }
       },
       kSendRecvHint},
      {"values", "every element is the sum over all ranks, whatever the length",
       "what comes from the right at step s is chunk r + 2 + s, so add it to that one; and it "
       "has that chunk's length, not that of the one you send: ask chunk_range for each",
       [=](Trial& trial) {
         for (const std::size_t count : sizes(trial)) {
           Guarded data = tracers(trial, count);
           solution(trial.comm(), data.span());
           expect_values(trial, data.span(), {0, count},
                         [&](std::size_t i) { return sum_over_ranks(trial, i); });
         }
       },
       kSendRecvHint},
      guard_check(solution),
      {"messages", "every rank sends 2 (N - 1) messages, all to the left",
       "N - 1 messages for each half, all to comm.left(), and received from comm.right()",
       [=](Trial& trial) {
         expect_traffic(trial, solution, whole_of(trial), false, Side::left);
       },
       kSendRecvHint},
      {"bytes", "every message is one chunk",
       "2 (N - 1) / N of the tensor per rank: one chunk per message",
       [=](Trial& trial) {
         expect_traffic(trial, solution, whole_of(trial), true, Side::left);
       },
       kSendRecvHint},
      {"same-bits", "all ranks hold the same bits",
       "each chunk must be finished by one rank and then copied: where everybody adds for "
       "himself, ranks may round differently",
       [=](Trial& trial) {
         std::vector<float> data = inexact_numbers(trial, 997);
         solution(trial.comm(), data);
         expect_same_bits(trial, data);
       },
       kSendRecvHint},
      {"finished-at-home", "chunk r is finished by rank r, whose own share is added last",
       "the sums are right, but the chunks rest one seat too early or too late: chunk c must "
       "begin at rank c - 1, so that it has been everywhere else when it comes to rank c. (The "
       "data here are large numbers that cancel out, and a 1 at rank c, which gets lost unless "
       "it comes last.)",
       [=](Trial& trial) {
         if (trial.size() < 3) return;  // a + b is b + a
         std::vector<float> data(3 * static_cast<std::size_t>(trial.size()));
         fill_so_that_the_own_share_must_come_last(trial, data);
         solution(trial.comm(), data);
         for (int c = 0; c < trial.size(); ++c) {
           const ChunkRange chunk = chunk_of(trial, data.size(), c);
           trial.expect(data[chunk.begin] == 1, [&] {
             return fmt::format("chunk {} is {}, and 1 only if rank {}'s share comes last", c,
                                data[chunk.begin], c);
           });
         }
       },
       kSendRecvHint},
      large_check(solution),
  };
}

}  // namespace dist::exercise
