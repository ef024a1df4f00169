// Checks of one message for all gradients: whether the result is copied back, whether it is the
// average, and what it costs.
#include "03_all_reduce/all_reduce.hpp"
#include "tests/exercises/05_ddp_training/checks.hpp"
#include "tests/exercises/05_ddp_training/gradient_set.hpp"

namespace dist::exercise {
namespace {

// Models with weights and biases, some with empty gradients, and models without parameters.
std::vector<Lengths> models(const Trial& trial) {
  const std::size_t n = trial.n();
  return {{12, 3, 6, 2}, {n, 1}, {1}, {0, 5, 0, 0, 7, 0}, {n - 1, n + 1, 997}, {0, 0}, {}};
}

void expect_traffic_of(Trial& trial, const SyncGradients& solution, const Lengths& lengths,
                       const MustSend& must) {
  GradientSet gradients(lengths);
  expect_traffic(trial, fmt::format("{} gradients: ", lengths.size()), must,
                 [&] { solution(trial.comm(), gradients.spans()); });
}

// What a model's gradients become if all elements on a rank are that rank's share.
GradientSet with_shares(const Trial& trial, const SyncGradients& solution) {
  GradientSet gradients({12, 3, 6, 2});
  gradients.fill([&](std::size_t, std::size_t) { return share_of(trial.rank()); });
  solution(trial.comm(), gradients.spans());
  return gradients;
}

// On several ranks, the gradients [first, end) must change: the average differs from every
// rank's share.
void expect_change(Trial& trial, const SyncGradients& solution, std::size_t first,
                   std::size_t end) {
  GradientSet gradients = with_shares(trial, solution);
  for (std::size_t g = first; g < end; ++g) {
    for (const float value : gradients.at(g)) {
      trial.expect(trial.size() == 1 || value != share_of(trial.rank()),
                   "{}{} elements, still holds this rank's own numbers", gradients.name(g),
                   gradients.at(g).size());
    }
  }
}

}  // namespace

std::vector<Check> checks_of_sync_gradients(const SyncGradients& solution) {
  const std::vector<Check> checks{
      {"copied-back", "the gradients receive the averages",
       "the all-reduce changed only the flat message, but the optimizer reads the gradients: "
       "copy the averages back into them",
       [=](Trial& trial) { expect_change(trial, solution, 0, 1); }},
      {"every-gradient", "no gradient is left out",
       "the message must contain all gradients, from the first to the last. If a single bias "
       "is not averaged, the replicas diverge, although every loss still falls",
       [=](Trial& trial) { expect_change(trial, solution, 1, 4); }},
      {"shares", "every element is the average of all ranks' shares, each counted once",
       "a sum is N times the average, as if the learning rate were N times as large. "
       "ReduceOp::avg already divides: do not divide again",
       [=](Trial& trial) {
         GradientSet gradients = with_shares(trial, solution);
         for (std::size_t g = 0; g < gradients.count(); ++g) {
           for (const float value : gradients.at(g)) {
             const float sum = value * static_cast<float>(trial.size());
             const std::string off = what_is_off(sum, trial.size());
             trial.expect(off.empty(), "{}{}", gradients.name(g), off);
           }
         }
       }},
      {"values", "every gradient gets its own averages back, for all lengths",
       "in the message, gradient k starts where gradient k - 1 ends, both when you pack and "
       "when you unpack: loop over the gradients twice in the same order, with one offset",
       [=](Trial& trial) {
         for (const Lengths& lengths : models(trial)) {
           GradientSet gradients(lengths);
           gradients.fill_tracers(trial);
           solution(trial.comm(), gradients.spans());
           gradients.expect(
               trial, [&](std::size_t g, std::size_t i) { return trial.mean(100 * g + i); });
         }
       }},
      {"guard-zones", "nothing is written outside the gradients",
       "copy exactly gradients[k].size() elements back into gradient k; its size may be 0",
       [=](Trial& trial) {
         for (const Lengths& lengths : models(trial)) {
           GradientSet gradients(lengths);
           gradients.fill_tracers(trial);
           solution(trial.comm(), gradients.spans());
           gradients.expect_guards(trial);
         }
       }},
      {"messages", "every rank sends 2 (N - 1) messages, all to its right",
       "one all-reduce per gradient costs 2 (N - 1) messages per gradient: copy all gradients "
       "one after the other into one vector, and reduce that with AllReduceAlgorithm::ring",
       [=](Trial& trial) {
         MustSend must{.messages_per_rank = 2 * (trial.n() - 1)};
         must.peers_of_rank_0 = std::vector<int>(trial.size() > 1 ? 1 : 0, 1);
         for (const Lengths& lengths :
              {Lengths{12, 3, 6, 2}, Lengths{40}, Lengths{0, 5, 0, 0, 7, 0}}) {
           expect_traffic_of(trial, solution, lengths, must);
         }
       }},
      {"bytes", "every rank sends 2 (N - 1) / N times as many elements as there are",
       "the message must hold each element once and nothing else: do not pad a gradient to the "
       "length of another",
       [=](Trial& trial) {
         const std::size_t n = trial.n();
         expect_traffic_of(trial, solution, {10 * n, n, 3 * n, 0},
                           {.bytes_per_rank = 2 * (n - 1) * 14 * sizeof(float)});
       }},
      {"same-bits", kSameBitsMust,
       "all_reduce gives all ranks the same bits: copy its result back unchanged",
       [=](Trial& trial) {
         GradientSet gradients({331, 7, 128, 1});
         gradients.fill_inexact(trial);
         solution(trial.comm(), gradients.spans());
         gradients.expect_same_bits(trial);
       }},
      {"order", "the message holds the gradients in the given order",
       "put gradient 0 first in the message, then gradient 1, and so on, and use "
       "ReduceOp::avg. The place of an element in the message, and the point at which the sum "
       "is divided, affect the last bits of the result, and ./learn mine compares all bits",
       [=](Trial& trial) {
         GradientSet gradients({331, 7, 128, 1});
         gradients.fill_inexact(trial);
         std::vector<float> message;
         for (const auto& each : gradients.spans()) {
           message.insert(message.end(), each.begin(), each.end());
         }
         all_reduce<float>(trial.comm(), message, ReduceOp::avg, AllReduceAlgorithm::ring);
         solution(trial.comm(), gradients.spans());
         auto expected = message.cbegin();
         for (std::size_t g = 0; g < gradients.count(); ++g) {
           for (const float value : gradients.at(g)) {
             const float must = *expected++;
             trial.expect(value == must, "{}{:.9g}, expected {:.9g}", gradients.name(g), value,
                          must);
           }
         }
       }},
      {"large", "it works for a model of a million parameters",
       "the copies must be as long as the gradients, and the message as long as all of them "
       "together",
       [=](Trial& trial) {
         GradientSet gradients({1 << 19, 1024, 1 << 19, 10});
         gradients.fill_tracers(trial);
         solution(trial.comm(), gradients.spans());
         gradients.expect_means(trial);
       }},
  };
  return with_hang_hint(checks,
                        "all ranks must call the same all-reduces with the same lengths, "
                        "whatever their gradients hold, even for empty gradients");
}

}  // namespace dist::exercise
