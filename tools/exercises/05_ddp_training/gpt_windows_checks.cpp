// Checks of how a GPT's windows are shared among ranks: which ones, and how much they count.
#include "05_ddp_training/exercise/window_share.hpp"
#include "common/join.hpp"
#include "tools/exercises/exercise.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

namespace dist::exercise {
namespace {

using Targets = std::vector<std::size_t>;  // of each window
using GptWindows = std::function<WindowShare(std::span<const std::size_t>, int, int)>;

// "5 windows of 64 64 64 64 8 targets on 3 ranks".
std::string which(const Targets& targets, int ranks) {
  const bool alike = std::ranges::adjacent_find(targets, std::not_equal_to{}) == targets.end();
  const std::span<const std::size_t> all(targets);
  return fmt::format(
      "{} windows{} on {} rank{}", targets.size(),
      targets.empty()
          ? ""
          : fmt::format(" of {}{} targets",
                        join(all.first(alike ? 1 : std::min<std::size_t>(12, all.size())), " "),
                        alike || all.size() <= 12 ? "" : " ..."),
      ranks, ranks == 1 ? "" : "s");
}

// All ranks' shares. What is no number of a window is a mistake of its own.
std::vector<WindowShare> shares(Trial& trial, const GptWindows& solution,
                                const Targets& targets, int ranks) {
  std::vector<WindowShare> of_all;
  for (int rank = 0; rank < ranks; ++rank) {
    trial.call(fmt::format("{}, rank {}", which(targets, ranks), rank));
    of_all.push_back(solution(targets, ranks, rank));
    for (const std::size_t w : of_all.back().windows) {
      trial.expect(Seen::out_of_bounds, w < targets.size(), "{}: rank {} takes window {}",
                   which(targets, ranks), rank, w);
    }
  }
  return of_all;
}

void expect_each_once(Trial& trial, const GptWindows& solution, const Targets& targets,
                      int ranks) {
  std::vector<int> times(targets.size());
  for (const WindowShare& share : shares(trial, solution, targets, ranks)) {
    for (const std::size_t w : share.windows) {
      if (w < times.size()) ++times[w];
    }
  }
  for (std::size_t w = 0; w < times.size(); ++w) {
    trial.expect(times[w] == 0 ? Seen::too_few : Seen::too_many, times[w] == 1,
                 "{}: window {} is taken {} times", which(targets, ranks), w, times[w]);
  }
}

void expect_even(Trial& trial, const GptWindows& solution, const Targets& targets, int ranks) {
  const auto of_all = shares(trial, solution, targets, ranks);
  const auto size = [](const WindowShare& share) { return share.windows.size(); };
  const auto [fewest, most] = std::ranges::minmax_element(of_all, {}, size);
  trial.expect(size(*most) <= size(*fewest) + 1, "{}: rank {} takes {}, and rank {} takes {}",
               which(targets, ranks), most - of_all.begin(), size(*most),
               fewest - of_all.begin(), size(*fewest));
}

// What is known of a wrong weight; `whole`: all ranks' weights lack what follows the point.
Seen seen_of(double weight, double right, double ranks, bool whole, bool by_windows) {
  const auto is = [&](double other) { return std::abs(weight - other) <= 1e-9 * other; };
  if (std::isnan(weight)) return Seen::empty;
  if (right == 0) return Seen::too_many;
  if (is(right / ranks)) return Seen::over_ranks;
  if (std::abs(weight - right) < 1e-6 * right) return Seen::single;
  if (whole) return Seen::zero;
  if (weight == 0) return Seen::too_few;
  if (is(1 / right)) return Seen::elsewhere;
  return by_windows ? Seen::uneven : Seen::something_else;
}

// The number of targets that would have this weight, if it is another one than `own`.
std::string weight_of(double weight, double own, double all, int ranks) {
  const double targets = weight * all / ranks;
  const bool is_whole = std::abs(targets - std::round(targets)) <= 1e-6 * targets;
  return targets >= 1 && targets < all && is_whole && std::round(targets) != own
             ? fmt::format(", that of {:.0f} targets", targets)
             : "";
}

// The weight must fit the windows that the rank has, whichever they are.
void expect_weights(Trial& trial, const GptWindows& solution, const Targets& targets,
                    int ranks) {
  const auto of_all = shares(trial, solution, targets, ranks);
  const auto all = static_cast<double>(std::reduce(targets.begin(), targets.end()));
  const auto targets_of = [&](const WindowShare& share) {
    double own = 0;
    for (const std::size_t w : share.windows) {
      if (w < targets.size()) own += static_cast<double>(targets[w]);
    }
    return own;
  };
  const auto right_of = [&](double own) { return own == 0 ? 0 : ranks * own / all; };
  const auto all_are = [&](auto weight_of_own) {
    return std::ranges::all_of(of_all, [&](const WindowShare& share) {
      return share.weight == weight_of_own(targets_of(share));
    });
  };
  const bool whole =
      all_are([&](double own) { return std::floor(right_of(own)); }) ||
      all_are([&](double own) { return own > 0 ? ranks * std::floor(own / all) : 0; });
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& share = of_all[static_cast<std::size_t>(rank)];
    const double own = targets_of(share), right = right_of(own), weight = share.weight;
    const double of_windows =
        ranks * static_cast<double>(share.windows.size()) / static_cast<double>(targets.size());
    const int digits = std::abs(weight - right) < 1e-4 * right ? 17 : 6;
    const std::string others = weight_of(weight, own, all, ranks);
    Seen seen = seen_of(weight, right, ranks, whole, std::abs(weight - of_windows) < 1e-9);
    if (seen == Seen::something_else && !others.empty()) seen = Seen::own;
    if (all > std::numeric_limits<int>::max()) seen = Seen::scaled;
    trial.expect(seen, std::abs(weight - right) <= 1e-12 * right,
                 "{}: rank {} has {} of {} targets, and weight {:.{}g}{}; expected {:.{}g}",
                 which(targets, ranks), rank, own, all, weight, digits, others, right, digits);
  }
}

}  // namespace

std::vector<Check> checks_of_gpt_windows(const GptWindows& solution) {
  using Expect = void (*)(Trial&, const GptWindows&, const Targets&, int);
  const auto for_all = [=](Expect expect, std::vector<Targets> steps, std::vector<int> sizes) {
    return [=](Trial& trial) {
      for (const Targets& targets : steps) {
        for (const int ranks : sizes) expect(trial, solution, targets, ranks);
      }
    };
  };
  const auto alike = [](std::size_t windows) { return Targets(windows, 64); };
  const Targets text_ends{64, 64, 64, 8}, padded{64, 0, 64, 8, 0, 0, 0},
      documents{64, 3, 64, 17, 64, 64, 5, 64, 41, 64, 29},
      long_ones{3'000'000'000, 1, 64, 2'000'000'000};
  return with_hints(
      {
          {"each-once",
           "each window must be on exactly one rank",
           "rank r may take windows r, r + N, r + 2 N, ..., up to the last one",
           for_all(expect_each_once,
                   {alike(32), alike(28), alike(5), alike(0), padded, documents},
                   {1, 2, 3, 4, 7, 9}),
           {{Seen::too_many,
             "one process does not see a window twice. Do not fill up the last turn: some ranks"
             " may have one window fewer"},
            {Seen::too_few,
             "each window is on a rank: also those of the last, incomplete turn, and those "
             "without targets, which cost as much time. 5 windows on 7 ranks leave two ranks "
             "without any"},
            {Seen::out_of_bounds,
             "windows are counted from 0 to targets.size() - 1. Return their numbers, not their"
             " lengths"}}},
          {"even", "no rank may have more than one window more than another",
           "a step takes as long as its slowest rank, and a window takes as long as another, "
           "however many targets it has: deal out windows, not targets. 32 windows on 3 ranks "
           "are 11, 11 and 10",
           for_all(expect_even,
                   {alike(32), alike(28), alike(5), padded, documents, {64, 8, 8, 8}},
                   {1, 2, 3, 4, 7, 9})},
          {"weight",
           "the weighted gradients must have the one process's gradient as their mean",
           "sum over all targets = sum over the ranks of (mean of rank) x (targets of rank). "
           "Divide by all targets, and see by what each rank's mean is multiplied. Then "
           "remember that the all-reduce divides by N",
           for_all(expect_weights, {alike(28), alike(32), text_ends}, {1, 2, 3, 4, 7})},
          {"targets", "what counts is targets, not windows",
           "a window of 3 targets counts as 3, and one of 64 as 64: add up targets[w] of the "
           "rank's windows, and of all windows",
           for_all(expect_weights, {documents, long_ones}, {1, 2, 3, 4, 7, 11})},
          {"nothing", "a rank without targets, and no other, must have the weight 0",
           "a rank without windows has 0 targets, and so has one with padding alone. If no rank"
           " has any, 0 / 0 is not a number",
           for_all(expect_weights, {alike(5), {0, 64, 64}, {0, 0}, {}}, {1, 2, 3, 7})},
      },
      {{Seen::over_ranks,
        "the all-reduce divides the sum by N, so each rank's share of the targets must be "
        "multiplied by N before. If all ranks have equally many, every weight is 1"},
       {Seen::too_many,
        "a rank without targets has the weight 0, on one rank or many, and if no rank has any"},
       {Seen::too_few,
        "this rank has targets. Only if all of its windows have none is its weight 0"},
       {Seen::elsewhere, "that is the reciprocal: the rank with more targets counts more"},
       {Seen::own,
        "the weight belongs to other windows than those that are returned: add up the targets "
        "of the same windows"},
       {Seen::scaled,
        "there are more targets than an int can count: in which type are they added? "
        "std::accumulate and std::reduce use that of their first value, so begin with "
        "std::size_t{0}"},
       {Seen::single, "the weight is right to a float's precision: compute with doubles"},
       {Seen::zero,
        "a quotient of whole numbers is a whole number: convert them to double before you "
        "divide"},
       {Seen::uneven,
        "what counts is targets, not windows: add up targets[w] of the rank's windows, and of "
        "all"},
       {Seen::empty,
        "0 / 0 is not a number, and no gradient survives being multiplied by it"}});
}

}  // namespace dist::exercise
