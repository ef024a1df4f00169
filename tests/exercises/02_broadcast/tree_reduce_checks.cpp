// The tree backwards: every rank's share once, values at every root, messages, rounds.
#include "tests/exercises/02_broadcast/broadcasts.hpp"
#include "tests/exercises/provenance.hpp"
#include "tests/support/counted.hpp"

namespace dist::exercise {
namespace {

const std::string kHangHint =
    "the report says where each rank waits. The tree of the broadcast, backwards: the largest "
    "distance comes first, who received there sends here, and a seat that has sent is done";

double sum_over_ranks(const Trial& trial, std::size_t index) {
  double sum = 0;
  for (int rank = 0; rank < trial.size(); ++rank) sum += trial.value(rank, index);
  return sum;
}

// Every rank's share once, in two elements, at `root`.
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
      {"shares", "rank 0 as the root has every rank's share once",
       "start with your own share in `sum`, add what comes, and send only when everything that "
       "you are to collect is in it: the largest distance first, then half of it, down to 1. "
       "Receive into a buffer of its own, then add",
       [=](Trial& trial) { check_shares(trial, solution, 0); }, kHangHint},
      {"every-root", "any root has every rank's share once",
       "think in seats counted from the root: seat = (rank - root + size) % size decides who "
       "sends and receives, and rank = (seat + root) % size to whom and from whom",
       [=](Trial& trial) {
         for (int root = 0; root < trial.size(); ++root) check_shares(trial, solution, root);
       },
       "seats and ranks are two numbers: seat = (rank - root + size) % size decides what a "
       "rank does, and (seat + root) % size is the rank to name in send and recv. The report "
       "says who waits for whom"},
      {"guard-zones", "nothing is written outside of `sum`, nor into `data`",
       "`sum` and every buffer that you receive into have data.size() elements",
       [=](Trial& trial) {
         for (const std::size_t count : sizes(trial)) {
           const Guarded data = tracers(trial, trial.rank(), count);
           Guarded sum(count);
           solution(trial.comm(), data.span(), sum.span(), trial.size() - 1);
           expect_intact(trial, sum, from_root(trial.size() - 1));
           expect_intact(trial, data, from_root(trial.size() - 1));
           expect_values(trial, data.span(), "afterwards, of `data`'s ",
                         [&](std::size_t i) { return trial.value(trial.rank(), i); });
         }
       },
       kHangHint},
      {"values", "the root has the sum, whatever the length",
       "add all data.size() elements, which may be 0",
       [=](Trial& trial) {
         for (int root = 0; root < trial.size(); ++root) {
           for (const std::size_t count : sizes(trial)) {
             check_values(trial, solution, count, root);
           }
         }
       },
       kHangHint},
      {"no-collective", "it is made of single messages", kCollectiveHint,
       [=](Trial& trial) { expect_no_collective(trial, traffic_of(trial, solution, 0)); },
       kHangHint},
      {"messages", "N - 1 messages are sent in all",
       "every rank but the root sends once, to one rank, when it has collected its part. Only "
       "the root is to have the sum: nothing goes back",
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
       "half of those that still have something to give do so in every round. A root that "
       "receives from everybody, or a chain, takes N - 1 rounds. And who has the most to "
       "collect must be waited for last",
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
       [=](Trial& trial) { check_values(trial, solution, kLarge, trial.size() - 1); },
       "send may wait until the receiver has come: two ranks that both send to each other "
       "first wait for ever"},
  };
}

}  // namespace dist::exercise
