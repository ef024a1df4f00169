// A batch in parts: every part counts, all weigh the same, and one message is sent.
#include "tests/exercises/05_ddp_training/checks.hpp"
#include "tests/exercises/05_ddp_training/gradient_set.hpp"
#include "tests/support/counted.hpp"

namespace dist::exercise {
namespace {

using Lengths = std::vector<std::size_t>;

// Calls the solution with a backward that writes value(k, g, i) over everything, and returns
// the order in which its parts were asked for. What an earlier step left lies in the gradients.
template <class Value>
std::vector<std::size_t> step(Trial& trial, const Accumulates& solution, std::size_t parts,
                              GradientSet& gradients, const Value& value) {
  gradients.fill([](std::size_t, std::size_t) { return 5555.0F; });
  std::vector<std::size_t> calls;
  solution(trial.comm(), parts, gradients.spans(), [&](std::size_t k) {
    calls.push_back(k);
    gradients.fill([&](std::size_t g, std::size_t i) { return value(k, g, i); });
  });
  return calls;
}

float tracer(const Trial& trial, int rank, std::size_t k, std::size_t g, std::size_t i) {
  return trial.value(rank, 300 * k + 100 * g + i);
}

void expect_mean(Trial& trial, const Accumulates& solution, std::size_t parts,
                 const Lengths& lengths) {
  GradientSet gradients(lengths);
  step(trial, solution, parts, gradients, [&](std::size_t k, std::size_t g, std::size_t i) {
    return tracer(trial, trial.rank(), k, g, i);
  });
  gradients.expect(trial, [&](std::size_t g, std::size_t i) {
    double sum = 0;
    for (int rank = 0; rank < trial.size(); ++rank) {
      for (std::size_t k = 0; k < parts; ++k) sum += tracer(trial, rank, k, g, i);
    }
    return sum / static_cast<double>(parts) / trial.size();
  });
  gradients.expect_guards(trial);
}

const std::string kHangHint =
    "all ranks must call the same all-reduces: as many, of the same lengths, in the same order";

const std::string kMessagesHint =
    "the first K - 1 backward passes end without a message (PyTorch: no_sync): add up on this "
    "rank, and average over the ranks once, after the last";

}  // namespace

std::vector<Check> checks_of_accumulate(const Accumulates& solution) {
  return {
      {"backward-calls", "backward runs once for every micro-batch, in order",
       "for (k = 0; k < parts; ++k) backward(k), and what it leaves in the gradients is used "
       "before the next call",
       [=](Trial& trial) {
         for (const std::size_t parts : {4, 1, 2}) {
           GradientSet gradients({3, 1});
           const std::vector<std::size_t> calls =
               step(trial, solution, parts, gradients, [](auto...) { return 1.0F; });
           trial.expect(calls.size() == parts, [&] {
             return fmt::format("{} micro-batches: {} calls", parts, calls.size());
           });
           for (std::size_t k = 0; k < std::min(parts, calls.size()); ++k) {
             trial.expect(calls[k] == k, [&] {
               return fmt::format("call {} was of micro-batch {}", k, calls[k]);
             });
           }
         }
       },
       kHangHint},
      {"adds-up", "every micro-batch leaves its trace in the gradients",
       "backward overwrites what the micro-batch before it left: after each call, add the "
       "gradients to sums of your own, and put the result back in the end",
       [=](Trial& trial) {
         for (std::size_t only = 0; only < 3; ++only) {
           GradientSet gradients({3, 1});
           step(trial, solution, 3, gradients,
                [&](std::size_t k, auto...) { return k == only ? 600.0F : 0.0F; });
           trial.expect(gradients.at(0)[0] != 0, [&] {
             return fmt::format(
                 "micro-batch {} of 3 is lost: it alone had a gradient, and all is 0", only);
           });
         }
       },
       kHangHint},
      {"mean", "gradients that are all 1 have the mean 1",
       "begin with sums of 0, and divide by K once and by N once, by N * K in all: "
       "ReduceOp::avg divides by N. (Or give each micro-batch the weight 1 / K when you add "
       "it)",
       [=](Trial& trial) {
         for (const std::size_t parts : {4, 1, 2, 8}) {
           GradientSet gradients({3, 0, 1});
           step(trial, solution, parts, gradients, [](auto...) { return 1.0F; });
           gradients.expect(trial, [](auto...) { return 1.0; });
         }
       },
       kHangHint},
      {"values", "every micro-batch of every rank weighs the same",
       "add up all K micro-batches first, the last one too, each with the same weight; then "
       "average over the ranks. What is added after the message belongs to this rank alone",
       [=](Trial& trial) {
         const auto n = static_cast<std::size_t>(trial.size());
         for (const std::size_t parts : {3, 1, 4}) {
           for (const Lengths& lengths :
                {Lengths{4, 2}, Lengths{0, n + 1, 97}, Lengths{0}, Lengths{}}) {
             expect_mean(trial, solution, parts, lengths);
           }
         }
       },
       kHangHint},
      {"messages", "every rank sends 2 (N - 1) messages, whatever the number of parts",
       kMessagesHint,
       [=](Trial& trial) {
         const auto n = static_cast<std::uint64_t>(trial.size());
         for (const std::size_t parts : {4, 1}) {
           GradientSet gradients({12, 3, 6});
           const Traffic traffic = counted(trial.comm(), [&] {
             step(trial, solution, parts, gradients, [](auto...) { return 1.0F; });
           });
           trial.expect(traffic.messages_per_rank == 2 * (n - 1), [&] {
             return fmt::format("{} parts, 3 gradients: {} messages, must be {}", parts,
                                traffic.messages_per_rank, 2 * (n - 1));
           });
           trial.expect(traffic.collectives == 0,
                        [] { return "a collective of MPI was called"; });
         }
       },
       kHangHint},
      {"bytes", "every rank sends 2 (N - 1) / N of the elements",
       "one number per element travels, the sum: not one for each micro-batch",
       [=](Trial& trial) {
         const auto n = static_cast<std::size_t>(trial.size());
         GradientSet gradients({10 * n, n});
         const Traffic traffic = counted(trial.comm(), [&] {
           step(trial, solution, 3, gradients, [](auto...) { return 1.0F; });
         });
         const std::uint64_t must = 2 * (n - 1) * 11 * sizeof(float);
         trial.expect(traffic.bytes_per_rank == must, [&] {
           return fmt::format("{} bytes sent, must be {}", traffic.bytes_per_rank, must);
         });
       },
       kHangHint},
      {"same-bits", "all ranks hold the same bits",
       "what all_reduce returns is the same on all ranks: copy it back as it is, or do the "
       "same arithmetic to it everywhere",
       [=](Trial& trial) {
         GradientSet gradients({331, 7});
         step(trial, solution, 3, gradients, [&](std::size_t k, std::size_t g, std::size_t i) {
           return 1.0F / static_cast<float>(3 * trial.rank() + 7) +
                  0.1F * static_cast<float>(i + g + k);  // no sum of these is exact
         });
         gradients.expect_same_bits(trial);
       },
       kHangHint},
  };
}

}  // namespace dist::exercise
