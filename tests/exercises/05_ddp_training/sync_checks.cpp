// Checks of one message for all gradients: whether the result is copied back, whether it is the
// average, and what it costs.
#include "03_all_reduce/all_reduce.hpp"
#include "tests/exercises/05_ddp_training/checks.hpp"
#include "tests/exercises/05_ddp_training/gradient_set.hpp"
#include "tests/exercises/provenance.hpp"

namespace dist::exercise {
namespace {

using Lengths = std::vector<std::size_t>;

// Models with weights and biases, some with empty gradients, and models without parameters.
std::vector<Lengths> models(const Trial& trial) {
  const auto n = static_cast<std::size_t>(trial.size());
  return {{12, 3, 6, 2}, {n, 1}, {1}, {0, 5, 0, 0, 7, 0}, {n - 1, n + 1, 997}, {0, 0}, {}};
}

void fill_tracers(Trial& trial, GradientSet& gradients) {
  gradients.fill(
      [&](std::size_t g, std::size_t i) { return trial.value(trial.rank(), 100 * g + i); });
}

// No sum of these numbers is exact.
void fill_inexact(const Trial& trial, GradientSet& gradients) {
  gradients.fill([&](std::size_t g, std::size_t i) {
    const float scale = trial.rank() % 2 == 0 ? 0.001F : 7.0F;
    return scale / static_cast<float>(3 * trial.rank() + 7) +
           scale * 0.1F * static_cast<float>(i + g);
  });
}

double average(const Trial& trial, std::size_t g, std::size_t i) {
  double sum = 0;
  for (int rank = 0; rank < trial.size(); ++rank) sum += trial.value(rank, 100 * g + i);
  return sum / trial.size();
}

void expect_traffic_of(Trial& trial, const SyncGradients& solution, const Lengths& lengths,
                       const MustSend& must) {
  GradientSet gradients(lengths);
  expect_traffic(trial, fmt::format("{} gradients: ", lengths.size()), must,
                 [&] { solution(trial.comm(), gradients.spans()); });
}

// Every element on rank r holds that rank's share (8^r). Expects the mean of all shares in the
// gradients [first, end).
void expect_shares(Trial& trial, const SyncGradients& solution, std::size_t first,
                   std::size_t end) {
  GradientSet gradients({12, 3, 6, 2});
  gradients.fill([&](std::size_t, std::size_t) { return share_of(trial.rank()); });
  solution(trial.comm(), gradients.spans());
  for (std::size_t g = first; g < end; ++g) {
    for (const float value : gradients.at(g)) {
      const std::string off =
          what_is_off(std::round(value * static_cast<float>(trial.size())), trial.size());
      trial.expect(off.empty(), "{}: {}", gradients.name(g), off);
    }
  }
}

// On several ranks, the gradients must change: the average differs from every rank's share.
void expect_change(Trial& trial, const SyncGradients& solution, bool last) {
  GradientSet gradients({12, 3, 6, 2});
  gradients.fill([&](std::size_t, std::size_t) { return share_of(trial.rank()); });
  solution(trial.comm(), gradients.spans());
  for (std::size_t g = last ? 1 : 0; g < (last ? gradients.count() : 1); ++g) {
    for (const float value : gradients.at(g)) {
      trial.expect(trial.size() == 1 || value != share_of(trial.rank()),
                   "{} still holds this rank's own numbers", gradients.name(g));
    }
  }
}

const std::string kHangHint =
    "all ranks must call the same all-reduces with the same lengths, whatever their gradients "
    "hold, even for empty gradients";

}  // namespace

std::vector<Check> checks_of_sync_gradients(const SyncGradients& solution) {
  const std::vector<Check> checks{
      {"copied-back", "the gradients receive the averages",
       "the all-reduce changed only the flat message, but the optimizer reads the gradients: "
       "copy the averages back into them",
       [=](Trial& trial) { expect_change(trial, solution, false); }},
      {"every-gradient", "no gradient is left out",
       "the message must contain all gradients, from the first to the last. If a single bias "
       "is not averaged, the replicas diverge, although every loss still falls",
       [=](Trial& trial) { expect_change(trial, solution, true); }},
      {"shares", "every element is the average of all ranks' shares, each counted once",
       "a sum is N times the average, as if the learning rate were N times as large. "
       "ReduceOp::avg already divides: do not divide again",
       [=](Trial& trial) { expect_shares(trial, solution, 0, 4); }},
      {"values", "every gradient gets its own averages back, for all lengths",
       "in the message, gradient k starts where gradient k - 1 ends, both when you pack and "
       "when you unpack: loop over the gradients twice in the same order, with one offset",
       [=](Trial& trial) {
         for (const Lengths& lengths : models(trial)) {
           GradientSet gradients(lengths);
           fill_tracers(trial, gradients);
           solution(trial.comm(), gradients.spans());
           gradients.expect(trial,
                            [&](std::size_t g, std::size_t i) { return average(trial, g, i); });
         }
       }},
      {"guard-zones", "nothing is written outside the gradients",
       "copy exactly gradients[k].size() elements back into gradient k; its size may be 0",
       [=](Trial& trial) {
         for (const Lengths& lengths : models(trial)) {
           GradientSet gradients(lengths);
           fill_tracers(trial, gradients);
           solution(trial.comm(), gradients.spans());
           gradients.expect_guards(trial);
         }
       }},
      {"messages", "every rank sends 2 (N - 1) messages, all to its right",
       "one all-reduce per gradient costs 2 (N - 1) messages per gradient: copy all gradients "
       "one after the other into one vector, and reduce that with AllReduceAlgorithm::ring",
       [=](Trial& trial) {
         const auto n = static_cast<std::uint64_t>(trial.size());
         MustSend must{.messages_per_rank = 2 * (n - 1)};
         must.peers_of_rank_0 = std::vector<int>(n > 1 ? 1 : 0, 1);
         for (const Lengths& lengths :
              {Lengths{12, 3, 6, 2}, Lengths{40}, Lengths{0, 5, 0, 0, 7, 0}}) {
           expect_traffic_of(trial, solution, lengths, must);
         }
       }},
      {"bytes", "every rank sends 2 (N - 1) / N times as many elements as there are",
       "the message must hold each element once and nothing else: do not pad a gradient to the "
       "length of another",
       [=](Trial& trial) {
         const auto n = static_cast<std::size_t>(trial.size());
         expect_traffic_of(trial, solution, {10 * n, n, 3 * n, 0},
                           {.bytes_per_rank = 2 * (n - 1) * 14 * sizeof(float)});
       }},
      {"same-bits", "all ranks get the same bits",
       "all_reduce gives all ranks the same bits: copy its result back unchanged",
       [=](Trial& trial) {
         GradientSet gradients({331, 7, 128, 1});
         fill_inexact(trial, gradients);
         solution(trial.comm(), gradients.spans());
         gradients.expect_same_bits(trial);
       }},
      {"order", "the message holds the gradients in the given order",
       "put gradient 0 first in the message, then gradient 1, and so on, and use "
       "ReduceOp::avg. The place of an element in the message, and the point at which the sum "
       "is divided, affect the last bits of the result, and ./learn mine compares all bits",
       [=](Trial& trial) {
         GradientSet gradients({331, 7, 128, 1});
         fill_inexact(trial, gradients);
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
             trial.expect(value == must, "{}: {:.9g}, expected {:.9g}", gradients.name(g),
                          value, must);
           }
         }
       }},
      {"large", "it works for a model of a million parameters",
       "the copies must be as long as the gradients, and the message as long as all of them "
       "together",
       [=](Trial& trial) {
         GradientSet gradients({1 << 19, 1024, 1 << 19, 10});
         fill_tracers(trial, gradients);
         solution(trial.comm(), gradients.spans());
         gradients.expect(trial,
                          [&](std::size_t g, std::size_t i) { return average(trial, g, i); });
         gradients.expect_guards(trial);
       }},
  };
  return with_hang_hint(checks, kHangHint);
}

}  // namespace dist::exercise
