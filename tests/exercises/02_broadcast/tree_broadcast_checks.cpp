// Checks of the tree: values from every root, messages and rounds.
#include "tests/exercises/02_broadcast/broadcasts.hpp"

namespace dist::exercise {

std::vector<Check> checks_of_tree_broadcast(const Broadcast& solution) {
  const std::vector<Check> checks{
      {"root-0", "rank 0's four numbers reach all ranks",
       "the distances are 1, 2, 4, ..., while they are below comm.size(). In the round with "
       "distance d, the ranks below d send to rank + d, if that rank exists, and the ranks "
       "from d to 2d - 1 receive from rank - d. A message that nobody receives went past the "
       "last rank, or back to a rank that already has the data",
       [=](Trial& trial) { check_broadcast(trial, solution, 4, 0); }},
      values_check(solution, kVranksHint, kVranksHangHint),
      guard_check(solution,
                  "send and receive data.size() elements, directly from and into `data`"),
      collective_check(solution),
      messages_check(solution,
                     "every rank but the root receives exactly once, and no other "
                     "messages are needed"),
      rounds_check(solution,
                   "every rank that has the data helps, so the number of ranks that have it "
                   "doubles in every round. If the root sends to every rank, or the ranks form "
                   "a chain, the broadcast takes N - 1 rounds. Also, send first to the rank "
                   "that has the most ranks to serve"),
      waits_check(solution),
      {"large", kLargeMust, "send and receive all data.size() elements",
       [=](Trial& trial) { check_broadcast(trial, solution, kLarge, trial.size() - 1); },
       kLargeHangHint},
  };
  return with_hang_hint(checks,
                        "the report says where each rank waits. If a rank waits for a message "
                        "that is never sent, it disagrees with the sender about the tree. At "
                        "distance d, vranks d to 2d - 1 receive from vrank - d, and only at "
                        "that distance; vranks below d send to vrank + d, if it exists");
}

}  // namespace dist::exercise
