// Checks of the tree run backwards: every rank's share once, values at every root, messages and
// rounds.
#include "tests/exercises/02_broadcast/broadcasts.hpp"

namespace dist::exercise {
namespace {

// Expects every rank's share exactly once in each of two elements at `root`.
void check_shares(Trial& trial, const Reduce& solution, int root) {
  const std::vector<float> data(2, share_of(trial.rank()));
  Guarded sum(2);
  solution(trial.comm(), data, sum.span(), root);
  for (const float element : sum.span()) {
    const std::string off = what_is_off(element, trial.size());
    trial.expect(trial.rank() != root || off.empty(), "{}{}", from_root(root), off);
  }
}

void check_values(Trial& trial, const Reduce& solution, std::size_t count, int root) {
  const Guarded data = tracers(trial, trial.rank(), count);
  Guarded sum(count, -1.0F);
  solution(trial.comm(), data.span(), sum.span(), root);
  if (trial.rank() != root) return;
  expect_values(trial, sum.span(), from_root(root),
                [&](std::size_t i) { return trial.sum(i); });
}

}  // namespace

std::vector<Check> checks_of_tree_reduce(const Reduce& solution) {
  const Run run = [=](const Communicator& comm, std::span<float> data, int root) {
    std::vector<float> sum(data.size());
    solution(comm, data, sum, root);
  };
  const std::vector<Check> checks{
      {"shares", "the sum at root 0 contains every rank's share exactly once",
       "start with your own share in `sum`, add what arrives, and send only when everything "
       "that you collect has been added. Use the largest distance first, then half of it, and "
       "so on, down to 1. Receive into a separate buffer, then add",
       [=](Trial& trial) { check_shares(trial, solution, 0); }},
      {"every-root", "the sum at every root contains every rank's share exactly once",
       kVranksHint,
       [=](Trial& trial) {
         for (int root = 0; root < trial.size(); ++root) check_shares(trial, solution, root);
       },
       kVranksHangHint},
      {"guard-zones", "nothing is written outside `sum` or into `data`",
       "`sum` and every buffer that you receive into must have data.size() elements",
       [=](Trial& trial) {
         for_every_root(trial, [&](std::size_t count, int root) {
           const Guarded data = tracers(trial, trial.rank(), count);
           Guarded sum(count);
           solution(trial.comm(), data.span(), sum.span(), root);
           expect_intact(trial, sum, from_root(root));
           expect_intact(trial, data, from_root(root));
           expect_values(trial, data.span(), "afterwards, `data`'s ",
                         [&](std::size_t i) { return trial.value(trial.rank(), i); });
         });
       }},
      {"values", "the root has the sum, for every length",
       "add all data.size() elements; data.size() may be 0",
       [=](Trial& trial) {
         for_every_root(trial, [&](std::size_t count, int root) {
           check_values(trial, solution, count, root);
         });
       }},
      collective_check(run),
      messages_check(run,
                     "every rank but the root sends once, when its partial sum is complete. "
                     "Only the root needs the sum: nothing is sent back"),
      rounds_check(run,
                   "in every round, half of the ranks that still hold a partial sum send it. "
                   "If the root receives from every rank, or the ranks form a chain, the "
                   "reduction takes N - 1 rounds. Also, receive last from the rank that "
                   "collects the most shares"),
      waits_check(run),
      {"large", kLargeMust, "send and receive all data.size() elements",
       [=](Trial& trial) { check_values(trial, solution, kLarge, trial.size() - 1); },
       kLargeHangHint},
  };
  return with_hang_hint(checks,
                        "the report says where each rank waits. Run the broadcast's tree "
                        "backwards: start with the largest distance, reverse the direction "
                        "of every message, and let a vrank that has sent do nothing more");
}

}  // namespace dist::exercise
