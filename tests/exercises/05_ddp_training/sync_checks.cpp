// One message for all gradients: whether it comes back, whether it is the average, what it
// costs.
#include "03_all_reduce/all_reduce.hpp"
#include "tests/exercises/05_ddp_training/checks.hpp"
#include "tests/exercises/05_ddp_training/gradient_set.hpp"
#include "tests/exercises/provenance.hpp"
#include "tests/support/counted.hpp"

namespace dist::exercise {
namespace {

using Lengths = std::vector<std::size_t>;

// Models: weights and biases, with and without empty ones, down to no parameter at all.
std::vector<Lengths> models(const Trial& trial) {
  const auto n = static_cast<std::size_t>(trial.size());
  return {{12, 3, 6, 2}, {n, 1}, {1}, {0, 5, 0, 0, 7, 0}, {n - 1, n + 1, 997}, {0, 0}, {}};
}

void fill_tracers(Trial& trial, GradientSet& gradients) {
  gradients.fill(
      [&](std::size_t g, std::size_t i) { return trial.value(trial.rank(), 100 * g + i); });
}

// No sum of these is exact.
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

Traffic traffic_of(Trial& trial, const SyncGradients& solution, const Lengths& lengths) {
  GradientSet gradients(lengths);
  return counted(trial.comm(), [&] { solution(trial.comm(), gradients.spans()); });
}

// Rank r holds its share (8^r) in every element; expects the mean of all in gradients [first,
// end).
void expect_shares(Trial& trial, const SyncGradients& solution, std::size_t first,
                   std::size_t end) {
  GradientSet gradients({12, 3, 6, 2});
  gradients.fill([&](std::size_t, std::size_t) { return share_of(trial.rank()); });
  solution(trial.comm(), gradients.spans());
  for (std::size_t g = first; g < end; ++g) {
    for (const float value : gradients.at(g)) {
      const std::string off =
          what_is_off(std::round(value * static_cast<float>(trial.size())), trial.size());
      trial.expect(off.empty(), [&] { return gradients.name(g) + ": " + off; });
    }
  }
}

// With more than one rank, an average differs from what every rank had before.
void expect_change(Trial& trial, const SyncGradients& solution, bool last) {
  GradientSet gradients({12, 3, 6, 2});
  gradients.fill([&](std::size_t, std::size_t) { return share_of(trial.rank()); });
  solution(trial.comm(), gradients.spans());
  for (std::size_t g = last ? 1 : 0; g < (last ? gradients.count() : 1); ++g) {
    for (const float value : gradients.at(g)) {
      trial.expect(trial.size() == 1 || value != share_of(trial.rank()),
                   [&] { return gradients.name(g) + " still holds this rank's own numbers"; });
    }
  }
}

const std::string kHangHint =
    "all ranks must call the same all-reduces of the same lengths, whatever their gradients "
    "hold, and empty ones too";

}  // namespace

std::vector<Check> checks_of_sync_gradients(const SyncGradients& solution) {
  return {
      {"copied-back", "the averages are where the gradients were",
       "the all-reduce worked on the flat message. The optimizer reads the gradients: copy the "
       "averages back into them",
       [=](Trial& trial) { expect_change(trial, solution, false); }, kHangHint},
      {"every-gradient", "no gradient is left out",
       "the message must be as long as all gradients together, from the first to the last. A "
       "single bias that is not averaged makes the replicas part, while every loss still falls",
       [=](Trial& trial) { expect_change(trial, solution, true); }, kHangHint},
      {"shares", "every element holds every rank's share once, as an average",
       "a sum is N times the gradient, as if the learning rate were N times as large: "
       "ReduceOp::avg divides, once; nobody needs to divide again",
       [=](Trial& trial) { expect_shares(trial, solution, 0, 4); }, kHangHint},
      {"values", "every gradient gets its own averages back, whatever the lengths",
       "gradient k begins in the message where gradient k - 1 ends, on the way in as on the "
       "way back: walk over them twice in the same order with one offset",
       [=](Trial& trial) {
         for (const Lengths& lengths : models(trial)) {
           GradientSet gradients(lengths);
           fill_tracers(trial, gradients);
           solution(trial.comm(), gradients.spans());
           gradients.expect(trial,
                            [&](std::size_t g, std::size_t i) { return average(trial, g, i); });
         }
       },
       kHangHint},
      {"guard-zones", "nothing is written outside of the gradients",
       "copy exactly gradients[k].size() elements back into gradient k, which may be none",
       [=](Trial& trial) {
         for (const Lengths& lengths : models(trial)) {
           GradientSet gradients(lengths);
           fill_tracers(trial, gradients);
           solution(trial.comm(), gradients.spans());
           gradients.expect_guards(trial);
         }
       },
       kHangHint},
      {"messages", "every rank sends 2 (N - 1) messages, all to the right",
       "one all-reduce for each gradient costs 2 (N - 1) messages for each: copy all gradients "
       "behind each other into one vector and reduce that, with AllReduceAlgorithm::ring",
       [=](Trial& trial) {
         const auto n = static_cast<std::uint64_t>(trial.size());
         for (const Lengths& lengths :
              {Lengths{12, 3, 6, 2}, Lengths{40}, Lengths{0, 5, 0, 0, 7, 0}}) {
           const Traffic traffic = traffic_of(trial, solution, lengths);
           trial.expect(traffic.messages_per_rank == 2 * (n - 1), [&] {
             return fmt::format("{} gradients: {} messages, must be {}", lengths.size(),
                                traffic.messages_per_rank, 2 * (n - 1));
           });
           trial.expect(traffic.collectives == 0,
                        [] { return "a collective of MPI was called"; });
           trial.expect(
               traffic.peers == (n == 1 ? std::vector<int>{} : std::vector<int>{1}),
               [] { return "rank 0 sends to another rank than the one on its right"; });
         }
       },
       kHangHint},
      {"bytes", "every rank sends 2 (N - 1) / N of the elements",
       "the message holds each element once and nothing else: no gradient padded to the length "
       "of another",
       [=](Trial& trial) {
         const auto n = static_cast<std::size_t>(trial.size());
         const Traffic traffic = traffic_of(trial, solution, {10 * n, n, 3 * n, 0});
         const std::uint64_t must = 2 * (n - 1) * 14 * sizeof(float);
         trial.expect(traffic.bytes_per_rank == must, [&] {
           return fmt::format("{} elements: {} bytes sent, must be {}", 14 * n,
                              traffic.bytes_per_rank, must);
         });
       },
       kHangHint},
      {"same-bits", "all ranks hold the same bits",
       "what all_reduce returns is the same on all ranks: copy it back as it is",
       [=](Trial& trial) {
         GradientSet gradients({331, 7, 128, 1});
         fill_inexact(trial, gradients);
         solution(trial.comm(), gradients.spans());
         gradients.expect_same_bits(trial);
       },
       kHangHint},
      {"order", "the message holds the gradients in the given order",
       "gradient 0 comes first in the message, then gradient 1, and so on, and ReduceOp::avg "
       "makes the average: where an element lies, and when it is divided, decides how the ring "
       "rounds it, and ./learn mine compares bits",
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
             trial.expect(value == must, [&] {
               return fmt::format("{}: {:.9g}, must be {:.9g}", gradients.name(g), value, must);
             });
           }
         }
       },
       kHangHint},
      {"large", "it works for a model of a million parameters",
       "the copies must be as long as the gradients, and the message as long as all of them",
       [=](Trial& trial) {
         GradientSet gradients({1 << 19, 1024, 1 << 19, 10});
         fill_tracers(trial, gradients);
         solution(trial.comm(), gradients.spans());
         gradients.expect(trial,
                          [&](std::size_t g, std::size_t i) { return average(trial, g, i); });
         gradients.expect_guards(trial);
       },
       kHangHint},
  };
}

}  // namespace dist::exercise
