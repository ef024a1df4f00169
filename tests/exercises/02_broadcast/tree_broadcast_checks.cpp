// The tree: values from every root, messages, rounds.
#include "tests/exercises/02_broadcast/broadcasts.hpp"
#include "tests/support/counted.hpp"

namespace dist::exercise {
namespace {

const std::string kHangHint =
    "the report says where each rank waits. A rank that waits for a message that is never sent "
    "has another idea of the tree than the sender: from distance d on, seats d to 2d - 1 "
    "receive "
    "from seat - d, and each only once; seats below d send to seat + d, if there is one";

Traffic traffic_of(const Trial& trial, const Broadcast& solution, int root) {
  std::vector<float> data(200, 1.0F);
  return counted(trial.comm(), [&] { solution(trial.comm(), data, root); });
}

}  // namespace

std::vector<Check> checks_of_tree_broadcast(const Broadcast& solution) {
  return {
      {"root-0", "rank 0's four numbers are on all ranks",
       "distances are 1, 2, 4, ... as long as they are below comm.size(). In the round with "
       "distance d the ranks below d send to rank + d, if there is such a rank, and the ranks "
       "from d to 2d - 1 receive from rank - d. A message that nobody receives went beyond the "
       "last rank, or back to one that has the data",
       [=](Trial& trial) { check_broadcast(trial, solution, 4, 0); }, kHangHint},
      {"values", "the root's numbers are on all ranks, whoever the root is",
       "think in seats counted from the root: seat = (rank - root + size) % size decides who "
       "sends and receives, and rank = (seat + root) % size to whom and from whom",
       [=](Trial& trial) {
         for (int root = 0; root < trial.size(); ++root) {
           for (const std::size_t count : sizes(trial)) {
             check_broadcast(trial, solution, count, root);
           }
         }
       },
       "seats and ranks are two numbers: seat = (rank - root + size) % size decides what a "
       "rank does, and (seat + root) % size is the rank to name in send and recv. The report "
       "says who waits for whom"},
      guard_check(solution, "send and receive data.size() elements, at their place", kHangHint),
      {"no-collective", "it is made of single messages", kCollectiveHint,
       [=](Trial& trial) { expect_no_collective(trial, traffic_of(trial, solution, 0)); },
       kHangHint},
      {"messages", "N - 1 messages are sent in all",
       "every rank but the root receives once, from the one rank that is there for it, and "
       "nobody else needs a message",
       [=](Trial& trial) {
         for (int root = 0; root < trial.size(); ++root) {
           const auto must = static_cast<std::uint64_t>(trial.size() - 1);
           const Traffic traffic = traffic_of(trial, solution, root);
           trial.expect(traffic.messages == must, [&] {
             return fmt::format("{}{} messages, must be {}", from_root(root), traffic.messages,
                                must);
           });
         }
       },
       kHangHint},
      {"rounds", "it takes ceil(log2 N) rounds",
       "whoever has the data helps: the number of ranks that have it doubles in every round. A "
       "root that sends to everybody, or a chain of ranks, takes N - 1 rounds. And who has the "
       "most to pass on must get it first",
       [=](Trial& trial) {
         for (int root = 0; root < trial.size(); ++root) {
           const std::uint64_t must = ceil_log2(trial.size());
           const Traffic traffic = traffic_of(trial, solution, root);
           trial.expect(traffic.rounds == must, [&] {
             return fmt::format("{}{} rounds, must be {}", from_root(root), traffic.rounds,
                                must);
           });
         }
       },
       kHangHint},
      {"waits", "nothing is under way any more when the call returns", kWaitsHint,
       [=](Trial& trial) { expect_finished(trial, traffic_of(trial, solution, 0)); },
       kHangHint},
      {"large", "it works for messages that MPI does not copy",
       "send and receive all of data.size() elements",
       [=](Trial& trial) { check_broadcast(trial, solution, kLarge, trial.size() - 1); },
       "send may wait until the receiver has come: two ranks that both send to each other "
       "first wait for ever"},
  };
}

}  // namespace dist::exercise
