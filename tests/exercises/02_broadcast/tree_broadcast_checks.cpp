// Checks of the tree: values from every root, messages and rounds.
#include "tests/exercises/02_broadcast/broadcasts.hpp"
#include "tests/support/counted.hpp"

namespace dist::exercise {
namespace {

const std::string kHangHint =
    "the report says where each rank waits. If a rank waits for a message that is never sent, "
    "it disagrees with the sender about the tree. At distance d, seats d to 2d - 1 receive "
    "from seat - d, and only at that distance; seats below d send to seat + d, if it exists";

Traffic traffic_of(const Trial& trial, const Broadcast& solution, int root) {
  std::vector<float> data(200, 1.0F);
  return counted(trial.comm(), [&] { solution(trial.comm(), data, root); });
}

}  // namespace

std::vector<Check> checks_of_tree_broadcast(const Broadcast& solution) {
  return {
      {"root-0", "rank 0's four numbers reach all ranks",
       "the distances are 1, 2, 4, ..., while they are below comm.size(). In the round with "
       "distance d, the ranks below d send to rank + d, if that rank exists, and the ranks "
       "from d to 2d - 1 receive from rank - d. A message that nobody receives went past the "
       "last rank, or back to a rank that already has the data",
       [=](Trial& trial) { check_broadcast(trial, solution, 4, 0); }, kHangHint},
      {"values", "the root's numbers reach all ranks, for every root and length",
       "count seats from the root: seat = (rank - root + size) % size decides who sends and "
       "receives, and (seat + root) % size is the rank in that seat",
       [=](Trial& trial) {
         for (int root = 0; root < trial.size(); ++root) {
           for (const std::size_t count : sizes(trial)) {
             check_broadcast(trial, solution, count, root);
           }
         }
       },
       "do not confuse seats and ranks: seat = (rank - root + size) % size decides what a rank "
       "does, and (seat + root) % size is the rank to pass to send and recv. The report says "
       "who waits for whom"},
      guard_check(solution,
                  "send and receive data.size() elements, directly from and into `data`",
                  kHangHint),
      {"no-collective", "it uses single messages, not collectives", kCollectiveHint,
       [=](Trial& trial) { expect_no_collective(trial, traffic_of(trial, solution, 0)); },
       kHangHint},
      {"messages", "N - 1 messages are sent in total",
       "every rank but the root receives exactly once, and no other messages are needed",
       [=](Trial& trial) {
         for (int root = 0; root < trial.size(); ++root) {
           const auto must = static_cast<std::uint64_t>(trial.size() - 1);
           const Traffic traffic = traffic_of(trial, solution, root);
           trial.expect(traffic.messages == must, [&] {
             return fmt::format("{}{} messages, expected {}", from_root(root), traffic.messages,
                                must);
           });
         }
       },
       kHangHint},
      {"rounds", "it takes ceil(log2 N) rounds",
       "every rank that has the data helps, so the number of ranks that have it doubles in "
       "every round. If the root sends to every rank, or the ranks form a chain, the broadcast "
       "takes N - 1 rounds. Also, send first to the rank that has the most ranks to serve",
       [=](Trial& trial) {
         for (int root = 0; root < trial.size(); ++root) {
           const std::uint64_t must = ceil_log2(trial.size());
           const Traffic traffic = traffic_of(trial, solution, root);
           trial.expect(traffic.rounds == must, [&] {
             return fmt::format("{}{} rounds, expected {}", from_root(root), traffic.rounds,
                                must);
           });
         }
       },
       kHangHint},
      {"waits", "no send or receive is still in progress when the call returns", kWaitsHint,
       [=](Trial& trial) { expect_finished(trial, traffic_of(trial, solution, 0)); },
       kHangHint},
      {"large", "it works for messages too large for MPI to buffer",
       "send and receive all data.size() elements",
       [=](Trial& trial) { check_broadcast(trial, solution, kLarge, trial.size() - 1); },
       "send may wait until the receiver is ready: if two ranks both start by sending to "
       "each other, both wait forever"},
  };
}

}  // namespace dist::exercise
