// Checks of one message for all gradients: whether every gradient counts, whether the result is
// the average, and what it costs.
#include "03_all_reduce/all_reduce.hpp"
#include "tools/exercises/05_ddp_training/gradient_set.hpp"
#include "tools/exercises/message_checks.hpp"

namespace dist::exercise {

using Gradients = std::vector<std::span<float>>;
using SyncGradients = std::function<void(const Communicator&, const Gradients&)>;
// Models with weights and biases, some with empty gradients, and models without parameters.
static std::vector<Lengths> models(const Trial& trial) {
  const std::size_t n = trial.n();
  return {{12, 3, 6, 2}, {n, 1}, {1}, {0, 5, 0, 0, 7, 0}, {n - 1, n + 1, 997}, {0, 0}, {}};
}

static void expect_traffic_of(Trial& trial, const SyncGradients& solution,
                              const Lengths& lengths, const MustSend& must) {
  GradientSet gradients(lengths);
  expect_traffic(trial, fmt::format("{} gradients: ", lengths.size()), must,
                 [&] { solution(trial.comm(), gradients.spans()); });
}

// What a model's gradients become if all elements on a rank are that rank's share.
static GradientSet with_shares(const Trial& trial, const SyncGradients& solution) {
  GradientSet gradients({12, 3, 6, 2, 4});  // not as many as there are ranks
  gradients.fill([&](std::size_t, std::size_t) { return share_of(trial.rank()); });
  solution(trial.comm(), gradients.spans());
  return gradients;
}

// On several ranks, the gradients [first, end) must change: the average differs from every
// rank's share.
static void expect_change(Trial& trial, const SyncGradients& solution, std::size_t first,
                          std::size_t end) {
  std::optional<GradientSet> changed;
  const std::uint64_t bytes =
      traffic_in(trial, [&] { changed.emplace(with_shares(trial, solution)); }).bytes_per_rank;
  GradientSet& gradients = *changed;
  for (std::size_t g = first; g < end && trial.size() > 1; ++g) {
    const bool is_changed = std::ranges::any_of(
        gradients.at(g), [&](float value) { return value != share_of(trial.rank()); });
    trial.expect(bytes == 0 ? Seen::too_few : Seen::something_else, is_changed,
                 "{}{} elements, still holds this rank's own numbers", gradients.name(g),
                 gradients.at(g).size());
  }
}

// Each element is the average of all ranks' shares.
static void expect_shares(Trial& trial, std::span<const float> gradient,
                          const std::string& name) {
  const auto off_at = [&](std::size_t i) {
    return what_is_off(gradient[i] * static_cast<float>(trial.size()), trial.size());
  };
  std::size_t right = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) right += off_at(i).text.empty() ? 1 : 0;
  const bool is_gone = std::ranges::any_of(gradient, is_of_freed_memory);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const Off off = off_at(i);
    if (off.text.empty() || (is_gone && off.seen != Seen::gone)) continue;
    const bool kept = trial.size() > 1 && gradient[i] == share_of(trial.rank());
    const float added =
        (gradient[i] - share_of(trial.rank())) * static_cast<float>(trial.size());
    if (what_is_off(added, trial.size()).text.empty()) {
      return trial.wrong(fmt::format("{}element {} is this rank's own number and the average, "
                                     "in sum",
                                     name, i),
                         Seen::added);
    }
    const Seen pattern = seen_in(i, right, gradient.size());
    return trial.wrong(fmt::format("{}{} elements, of which {} are right: in element {}, {}",
                                   name, gradient.size(), right, i,
                                   kept ? "there is still this rank's own number" : off.text),
                       pattern == Seen::something_else && !kept ? off.seen : pattern);
  }
}

std::vector<Check> checks_of_sync_gradients(const SyncGradients& solution) {
  const std::vector<Check> checks{
      {"copied-back",
       "the gradients must receive the averages",
       "the all-reduce changed only the flat message, but the optimizer reads the gradients: "
       "copy the averages back into the spans themselves; a vector made from a span is a copy",
       [=](Trial& trial) { expect_change(trial, solution, 0, 1); },
       {{Seen::too_few,
         "your all-reduce has sent no bytes: was its span made before the vector was filled? A "
         "span "
         "keeps the length that it was made with"}}},
      {"every-gradient", "no gradient may be left out",
       "the message must contain all gradients, from the first to the last. If a single bias "
       "is not averaged, the replicas diverge, although every loss still falls",
       [=](Trial& trial) { expect_change(trial, solution, 1, 5); }},
      {"shares",
       "every element must be the average of all ranks' shares, each counted once",
       "copy every element of every gradient into the message once, and back once. When you "
       "copy back, the place in the message begins at 0 again",
       [=](Trial& trial) {
         GradientSet gradients = with_shares(trial, solution);
         for (std::size_t g = 0; g < gradients.count(); ++g) {
           expect_shares(trial, gradients.at(g), gradients.name(g));
         }
       },
       {{Seen::times_ranks,
         "a sum is N times the average, as if the learning rate were N times as large: use "
         "ReduceOp::avg"},
        {Seen::zero,
         "a vector that was made with a length begins with that many zeros, and appending to "
         "it "
         "comes after them; and in C++, 1 / comm.size() is 0, a whole number"},
        {Seen::over_ranks, "ReduceOp::avg already divides by N: do not divide again"}}},
      {"values",
       "every gradient must get its own averages back, for all lengths",
       "in the message, gradient k starts where gradient k - 1 ends, both when you pack and "
       "when you unpack: loop over the gradients twice in the same order, with one offset",
       [=](Trial& trial) {
         for (const Lengths& lengths : models(trial)) {
           const bool right = trial.mistake().empty();
           GradientSet gradients(lengths);
           gradients.fill_tracers(trial);
           solution(trial.comm(), gradients.spans());
           gradients.expect(
               trial, [&](std::size_t g, std::size_t i) { return trial.mean(100 * g + i); });
           if (std::ranges::count(lengths, 0U) > 0) trial.wrong_in(right, Seen::empty);
         }
       },
       {{Seen::empty, kEmptyHint}}},
      {"guard-zones", "it must work for all lengths, and write nothing outside the gradients",
       "copy exactly gradients[k].size() elements back into gradient k; its size may be 0",
       [=](Trial& trial) {
         for (const Lengths& lengths : models(trial)) {
           GradientSet gradients(lengths);
           gradients.fill_tracers(trial);
           solution(trial.comm(), gradients.spans());
           gradients.expect_guards(trial);
         }
       }},
      {"messages",
       "every rank must send 2 (N - 1) messages, all to its right",
       "one all-reduce per gradient costs 2 (N - 1) messages per gradient: copy all gradients "
       "one after the other into one vector, and reduce that with AllReduceAlgorithm::ring",
       [=](Trial& trial) {
         MustSend must{.messages_per_rank = 2 * (trial.n() - 1)};
         must.peers_of_rank_0 = std::vector<int>(trial.size() > 1 ? 1 : 0, 1);
         for (const Lengths& lengths : {Lengths{12, 3, 6, 2}, Lengths{40},
                                        Lengths{0, 5, 0, 0, 7, 0}, Lengths{5000, 3, 70000}}) {
           expect_traffic_of(trial, solution, lengths, must);
         }
       },
       {{Seen::too_few,
         "another all-reduce than the ring sends fewer messages, each of the whole tensor: "
         "pass AllReduceAlgorithm::ring"}}},
      {"bytes", "every rank must send 2 (N - 1) / N times as many elements as there are",
       "the message must hold each element once and nothing else: do not pad a gradient to the "
       "length of another",
       [=](Trial& trial) {
         const std::size_t n = trial.n();
         for (const std::size_t more : {n - 1, 1UL, 0UL}) {  // N need not divide the elements
           expect_traffic_of(
               trial, solution, {10 * n, n + more, 3 * n, 0},
               {.bytes_per_rank = sizeof(float) * ring_elements(14 * n + more, trial.size())});
         }
       }},
      {"same-bits", kSameBitsMust,
       "all_reduce gives all ranks the same bits: copy its result back unchanged",
       [=](Trial& trial) {
         GradientSet gradients({331, 7, 128, 1});
         gradients.fill_inexact(trial);
         solution(trial.comm(), gradients.spans());
         gradients.expect_same_bits(trial);
       }},
      {"order",
       "the averages must have the bits of one all-reduce with ReduceOp::avg, in the given "
       "order",
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
         gradients.expect_bits(trial, message);
       }},
      {"not-finite", kNotFiniteMust, kNotFiniteHint,
       [=](Trial& trial) {
         GradientSet gradients({12, 3, 6});
         gradients.fill_not_finite(trial);
         solution(trial.comm(), gradients.spans());
         gradients.expect_not_finite(trial);
       }},
      {"large", "it must work for a model of a million parameters",
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
