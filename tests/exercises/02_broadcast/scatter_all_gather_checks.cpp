// Checks of scatter and leftward all-gather: values from every root, messages, peers and bytes.
#include "tests/exercises/02_broadcast/broadcasts.hpp"

#include <numeric>

namespace dist::exercise {

std::vector<Check> checks_of_scatter_all_gather(const Broadcast& solution) {
  const std::vector<Check> checks{
      {"root-0", "rank 0's numbers reach all ranks, with one element per chunk",
       "after the scatter, rank r has chunk r. In step s = 0, 1, ... it sends chunk r + s to "
       "the left (after step 0, the chunk that it received in the previous step) and receives "
       "chunk r + 1 + s from the right",
       [=](Trial& trial) { check_broadcast(trial, solution, trial.n(), 0); }},
      guard_check(
          solution,
          "if N does not divide the number of elements, chunks differ in length by one, and "
          "some may be empty: call chunk_range for each chunk that you send or receive"),
      values_check(solution,
                   "the root is not always rank 0, and it already has its own chunk. If N does "
                   "not divide the number of elements, chunks differ in length by one: call "
                   "chunk_range for each chunk instead of computing with length / N"),
      collective_check(solution),
      {"messages", "the root sends 2 (N - 1) messages, every other rank N - 1",
       "the root sends N - 1 messages in the scatter. In the ring, every rank sends one "
       "message per step, for N - 1 steps, after which every rank has every chunk",
       [=](Trial& trial) {
         const std::uint64_t each = trial.n() - 1;  // of the root in the scatter, then of all
         expect_traffic_of(trial, solution, [&](int) {
           return MustSend{.messages = each + each * (each + 1), .messages_per_rank = 2 * each};
         });
       }},
      {"leftward", "every rank except the root sends only to its left neighbour",
       "send to comm.left() and receive from comm.right(); only the root sends to other ranks, "
       "in the scatter",
       // Examines rank 0, which takes every place in the ring as the root changes.
       [=](Trial& trial) {
         if (trial.size() == 1) return;
         std::vector<int> all(trial.n() - 1);
         std::iota(all.begin(), all.end(), 1);
         expect_traffic_of(trial, solution, [&](int root) {
           return MustSend{.peers_of_rank_0 =
                               root == 0 ? all : std::vector<int>{trial.size() - 1}};
         });
       }},
      {"bytes", "every message contains exactly one chunk",
       "the root sends 2 (N - 1) / N of the tensor, every other rank half of that. In the "
       "scatter, send each rank its own chunk, not the whole tensor. In the ring, send only "
       "the chunk that has just arrived, not everything that you have",
       [=](Trial& trial) {
         expect_traffic_of(trial, solution, [&](int) {
           return MustSend{.bytes_per_rank = 2 * (trial.n() - 1) * kChunk * sizeof(float)};
         });
       }},
      waits_check(solution),
      {"large", kLargeMust, "a message must contain all elements of its chunk",
       [=](Trial& trial) { check_broadcast(trial, solution, kLarge, trial.size() - 1); },
       "a plain send may wait until the receiver is ready. Small chunks worked because MPI "
       "buffered them. In a ring where every rank sends first, all ranks wait. Use "
       "send_recv, which sends and receives at the same time"},
  };
  return with_hang_hint(
      checks,
      "the report says where each rank waits. In the scatter, the root sends to every other "
      "rank, and each of those receives once, from the root. In the ring, every rank sends "
      "and receives in every step. If all ranks start with a plain send, all may wait for "
      "each other forever; send_recv sends and receives at the same time");
}

}  // namespace dist::exercise
