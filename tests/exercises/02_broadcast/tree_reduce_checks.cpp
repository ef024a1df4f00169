// Checks of the tree run backwards: every rank's share once, values at every root, messages and
// rounds.
#include "tests/exercises/02_broadcast/broadcasts.hpp"
#include "tests/exercises/provenance.hpp"
#include "tests/support/counted.hpp"

namespace dist::exercise {
namespace {

const std::string kHangHint =
    "the report says where each rank waits. Run the broadcast's tree backwards: start with the "
    "largest distance, reverse the direction of every message, and let a seat that has sent do "
    "nothing more";

double sum_over_ranks(const Trial& trial, std::size_t index) {
  double sum = 0;
  for (int rank = 0; rank < trial.size(); ++rank) sum += trial.value(rank, index);
  return sum;
}

// Expects every rank's share exactly once in each of two elements at `root`.
void check_shares(Trial& trial, const Reduce& solution, int root) {
  const std::vector<float> data(2, share_of(trial.rank()));
  Guarded sum(2);
  solution(trial.comm(), data, sum.span(), root);
  if (trial.rank() != root) return;
  for (const float element : sum.span()) {
    trial.wrong([&] {
      const std::string off = what_is_off(element, trial.size());
      return off.empty() ? off : from_root(root) + off;
    }());
  }
}

void check_values(Trial& trial, const Reduce& solution, std::size_t count, int root) {
  const Guarded data = tracers(trial, trial.rank(), count);
  Guarded sum(count, -1.0F);
  solution(trial.comm(), data.span(), sum.span(), root);
  if (trial.rank() != root) return;
  expect_values(trial, sum.span(), from_root(root),
                [&](std::size_t i) { return sum_over_ranks(trial, i); });
}

Traffic traffic_of(const Trial& trial, const Reduce& solution, int root) {
  const std::vector<float> data(200, 1.0F);
  std::vector<float> sum(200);
  return counted(trial.comm(), [&] { solution(trial.comm(), data, sum, root); });
}

}  // namespace

std::vector<Check> checks_of_tree_reduce(const Reduce& solution) {
  return {
      {"shares", "the sum at root 0 contains every rank's share exactly once",
       "start with your own share in `sum`, add what arrives, and send only when everything "
       "that you collect has been added. Use the largest distance first, then half of it, and "
       "so on, down to 1. Receive into a separate buffer, then add",
       [=](Trial& trial) { check_shares(trial, solution, 0); }, kHangHint},
      {"every-root", "the sum at every root contains every rank's share exactly once",
       "count seats from the root: seat = (rank - root + size) % size decides who sends and "
       "receives, and (seat + root) % size is the rank in that seat",
       [=](Trial& trial) {
         for (int root = 0; root < trial.size(); ++root) check_shares(trial, solution, root);
       },
       "do not confuse seats and ranks: seat = (rank - root + size) % size decides what a rank "
       "does, and (seat + root) % size is the rank to pass to send and recv. The report says "
       "who waits for whom"},
      {"guard-zones", "nothing is written outside `sum` or into `data`",
       "`sum` and every buffer that you receive into must have data.size() elements",
       [=](Trial& trial) {
         for (const std::size_t count : sizes(trial)) {
           const Guarded data = tracers(trial, trial.rank(), count);
           Guarded sum(count);
           solution(trial.comm(), data.span(), sum.span(), trial.size() - 1);
           expect_intact(trial, sum, from_root(trial.size() - 1));
           expect_intact(trial, data, from_root(trial.size() - 1));
           expect_values(trial, data.span(), "afterwards, `data`'s ",
                         [&](std::size_t i) { return trial.value(trial.rank(), i); });
         }
       },
       kHangHint},
      {"values", "the root has the sum, for every length",
       "add all data.size() elements; data.size() may be 0",
       [=](Trial& trial) {
         for (int root = 0; root < trial.size(); ++root) {
           for (const std::size_t count : sizes(trial)) {
             check_values(trial, solution, count, root);
           }
         }
       },
       kHangHint},
      {"no-collective", "it uses single messages, not collectives", kCollectiveHint,
       [=](Trial& trial) { expect_no_collective(trial, traffic_of(trial, solution, 0)); },
       kHangHint},
      {"messages", "N - 1 messages are sent in total",
       "every rank but the root sends once, when its partial sum is complete. Only the root "
       "needs the sum: nothing is sent back",
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
       "in every round, half of the ranks that still hold a partial sum send it. If the root "
       "receives from every rank, or the ranks form a chain, the reduction takes N - 1 rounds. "
       "Also, receive last from the rank that collects the most shares",
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
       [=](Trial& trial) { check_values(trial, solution, kLarge, trial.size() - 1); },
       "send may wait until the receiver is ready: if two ranks both start by sending to "
       "each other, both wait forever"},
  };
}

}  // namespace dist::exercise
