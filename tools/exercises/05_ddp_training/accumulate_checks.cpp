// Checks of a batch in parts: whether every part counts, whether the result is the average over
// all parts and ranks, and what it costs.
#include "03_all_reduce/all_reduce.hpp"
#include "tools/exercises/05_ddp_training/gradient_set.hpp"
#include "tools/exercises/message_checks.hpp"

namespace dist::exercise {

using Gradients = std::vector<std::span<float>>;
using Backward = std::function<void(std::size_t)>;
using Accumulates =
    std::function<void(const Communicator&, std::size_t, const Gradients&, const Backward&)>;

// Calls the solution with a `backward` that overwrites all gradients with value(k, g, i), and
// returns the parts in the order in which `backward` was called for them. Before the call, the
// gradients hold leftovers from an earlier step.
template <class Value>
static std::vector<std::size_t> step(Trial& trial, const Accumulates& solution,
                                     std::size_t parts, GradientSet& gradients,
                                     const Value& value) {
  gradients.fill([](std::size_t, std::size_t) { return 5555.0F; });
  std::vector<std::size_t> calls;
  solution(trial.comm(), parts, gradients.spans(), [&](std::size_t k) {
    calls.push_back(k);
    gradients.fill([&](std::size_t g, std::size_t i) { return value(k, g, i); });
  });
  return calls;
}

// What is known of the mean of `parts` parts on n ranks, all of ones, if it is not 1.
static Seen seen_of_mean(double value, double parts, double n) {
  if (is_near(value, 1 / n)) return Seen::over_ranks;
  if (is_near(value, n)) return Seen::times_ranks;
  if (is_near(value, parts)) return Seen::too_many;
  if (is_near(value, 1 / parts)) return Seen::too_few;
  if (is_near(value, (parts + 1) / parts)) return Seen::added;
  return is_near(value, (parts - 1) / parts) ? Seen::fewer : Seen::something_else;
}

static void expect_mean(Trial& trial, const Accumulates& solution, std::size_t parts,
                        const Lengths& lengths) {
  GradientSet gradients(lengths);
  const auto index = [](std::size_t k, std::size_t g, std::size_t i) {
    return 300 * k + 100 * g + i;
  };  // the sign depends on i alone (Trial::value), so that nothing cancels
  step(trial, solution, parts, gradients, [&](std::size_t k, std::size_t g, std::size_t i) {
    return trial.value(trial.rank(), index(k, g, i));
  });
  const bool right = trial.mistake().empty();
  gradients.in = fmt::format("{} part{}, ", parts, parts == 1 ? "" : "s");
  gradients.expect(trial, [&](std::size_t g, std::size_t i) {
    double sum = 0;
    for (std::size_t k = 0; k < parts; ++k) sum += trial.mean(index(k, g, i));
    return sum / static_cast<double>(parts);
  });
  if (std::ranges::count(lengths, 0U) > 0) trial.wrong_in(right, Seen::empty);
  gradients.expect_guards(trial);
}

std::vector<Check> checks_of_accumulate(const Accumulates& solution) {
  const std::vector<Check> checks{
      {"backward-calls", "backward must run once for every micro-batch, in order",
       "call backward(k) for k = 0 to parts - 1, and use what it leaves in the gradients "
       "before the next call",
       [=](Trial& trial) {
         for (const std::size_t parts : {4, 1, 2, 3}) {  // 3: also if no gradient has elements
           GradientSet gradients(parts == 3 ? Lengths{0, 0} : Lengths{3, 1});
           const std::vector<std::size_t> calls =
               step(trial, solution, parts, gradients, [](auto...) { return 1.0F; });
           trial.expect(calls.size() == parts, "{} micro-batches, but {} calls", parts,
                        calls.size());
           for (std::size_t k = 0; k < std::min(parts, calls.size()); ++k) {
             trial.expect(calls[k] == k, "call {} was for micro-batch {}", k, calls[k]);
           }
         }
       }},
      {"adds-up",
       "every micro-batch must contribute to the gradients",
       "backward overwrites the result of the previous micro-batch: after each call, add the "
       "gradients to your own sums, and copy the result back at the end",
       [=](Trial& trial) {
         std::vector<std::size_t> lost;
         for (std::size_t only = 0; only < 3; ++only) {
           GradientSet gradients({3, 1});
           step(trial, solution, 3, gradients,
                [&](std::size_t k, auto...) { return k == only ? 600.75F : 0.0F; });
           if (gradients.at(0)[0] == 0) lost.push_back(only);
         }
         trial.expect(Seen::zero, lost.size() < 3,
                      "the result is 0, whichever micro-batch has gradients");
         trial.expect(lost.empty(),
                      "lost, of micro-batches 0 to 2: {}; if only such a one has gradients, "
                      "the result is 0",
                      join(lost, " and "));
       },
       {{Seen::zero,
         "in C++, a whole number divided by a larger one is 0, like 1 / parts: divide by "
         "static_cast<float>(parts). And copy the result back into the gradients"}}},
      {"mean",
       "if all gradients are 1, their mean must be 1",
       "start with sums of 0, add to them after each call of backward, and divide once by K "
       "and once by N: ReduceOp::avg divides by N. Divide by K when you add, as a float: a "
       "whole "
       "number divided by a larger one is 0",
       [=](Trial& trial) {
         for (const std::size_t parts : {5, 1, 2, 8}) {  // 5: no run has so many ranks
           GradientSet gradients({3, 0, 1});
           gradients.in = fmt::format("{} part{}, ", parts, parts == 1 ? "" : "s");
           step(trial, solution, parts, gradients, [](auto...) { return 1.0F; });
           gradients.expect(
               trial, [](auto...) { return 1.0; },
               [=, n = trial.size()](double value, auto...) {
                 return seen_of_mean(value, static_cast<double>(parts), n);
               });
         }
       },
       {{Seen::over_ranks,
         "that is 1 / N: ReduceOp::avg has already divided by the number of ranks"},
        {Seen::times_ranks, "that is N: nobody has divided by the number of ranks"},
        {Seen::too_many, "that is K: nobody has divided by the number of parts"},
        {Seen::too_few, "that is 1 / K: it has been divided by the number of parts twice"},
        {Seen::added, "that is (K + 1) / K: one micro-batch is added twice"},
        {Seen::fewer, "that is (K - 1) / K: one micro-batch is left out"}}},
      {"values",
       "every micro-batch of every rank must have the same weight",
       "first add up all K micro-batches, including the last, with the same weight; then "
       "average over the ranks, also if `parts` is 1. Anything added after the message "
       "counts on this rank only",
       [=](Trial& trial) {
         const std::size_t n = trial.n();
         for (const std::size_t parts : {3, 1, 4}) {
           for (const Lengths& lengths :
                {Lengths{4, 2}, Lengths{0, n + 1, 97}, Lengths{0}, Lengths{}}) {
             expect_mean(trial, solution, parts, lengths);
           }
         }
       },
       {{Seen::empty, kEmptyHint}}},
      {"messages", "every rank must send 2 (N - 1) messages, for any number of parts",
       "the first K - 1 backward passes must end without a message (no_sync in PyTorch): add "
       "up on this rank, and average over the ranks once, after the last pass",
       [=](Trial& trial) {
         for (const std::size_t parts : {4, 1}) {
           GradientSet gradients({12, 3, 5000, 6});
           expect_traffic(
               trial, fmt::format("{} parts, 4 gradients: ", parts),
               {.messages_per_rank = 2 * (trial.n() - 1)},
               [&] { step(trial, solution, parts, gradients, [](auto...) { return 1.0F; }); });
         }
       }},
      {"bytes", "every rank must send 2 (N - 1) / N times as many elements as there are",
       "send one number per element (the sum), not one per micro-batch",
       [=](Trial& trial) {
         const std::size_t n = trial.n();
         for (const std::size_t more : {n - 1, 1UL, 0UL}) {
           GradientSet gradients({10 * n, n + more});
           expect_traffic(
               trial, "",
               {.bytes_per_rank = sizeof(float) * ring_elements(11 * n + more, trial.size())},
               [&] { step(trial, solution, 3, gradients, [](auto...) { return 1.0F; }); });
         }
       }},
      {"same-bits", kSameBitsMust,
       "all_reduce gives all ranks the same bits: copy its result back unchanged, or process "
       "it the same way on every rank",
       [=](Trial& trial) {
         GradientSet gradients({331, 7});
         const float scale = trial.rank() % 2 == 0 ? 0.001F : 7.0F;
         step(trial, solution, 3, gradients, [&](std::size_t k, std::size_t g, std::size_t i) {
           return scale / static_cast<float>(3 * trial.rank() + 7) +
                  scale * 0.1F * static_cast<float>(i + g + k);  // no sum of these is exact
         });
         gradients.expect_same_bits(trial);
       }},
      {"order", "the mean must have the bits of the contract's order of operations",
       "divide each number by K, a float, when you add it, micro-batch 0 first; then one "
       "all_reduce with ReduceOp::avg of all gradients in the given order. Any other order "
       "rounds differently, also x * (1 / K) in place of x / K, and ./learn mine compares all "
       "bits",
       [=](Trial& trial) {
         constexpr std::size_t kParts = 3;  // a division by it is not exact
         GradientSet gradients({331, 7, 0, 128});
         const auto number = [&](std::size_t k, std::size_t g, std::size_t i) {
           const float scale = trial.rank() % 2 == 0 ? 0.001F : -7.0F;
           return scale / static_cast<float>(3 * trial.rank() + 7) +
                  scale * 0.1F * static_cast<float>(i + g + k);
         };
         std::vector<float> message;
         for (std::size_t g = 0; g < gradients.count(); ++g) {
           for (std::size_t i = 0; i < gradients.at(g).size(); ++i) {
             float sum = 0;
             for (std::size_t k = 0; k < kParts; ++k) {
               sum += number(k, g, i) / static_cast<float>(kParts);
             }
             message.push_back(sum);
           }
         }
         all_reduce<float>(trial.comm(), message, ReduceOp::avg, AllReduceAlgorithm::ring);
         step(trial, solution, kParts, gradients, number);
         gradients.expect_bits(trial, message);
       }},
      {"not-finite", kNotFiniteMust, kNotFiniteHint,
       [=](Trial& trial) {
         GradientSet gradients({12, 3});
         GradientSet numbers({12, 3});
         numbers.fill_not_finite(trial);
         step(trial, solution, 3, gradients, [&](std::size_t k, std::size_t g, std::size_t i) {
           return k == 1 ? numbers.at(g)[i] : 1.0F;
         });
         gradients.expect_not_finite(trial);
       }},
  };
  return with_hints(
      checks,
      {{Seen::hang,
        "all ranks must call the same all-reduces, in the same order and with the same "
        "lengths"},
       {Seen::crash,
        "an offset into the sums that goes on from one micro-batch to the next leaves them: it "
        "begins at 0 again after each call of backward, and when you copy back"}});
}

}  // namespace dist::exercise
