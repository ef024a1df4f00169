// Checks of what each rank reads in an epoch, and in the rest of one: every policy, few
// samples, none, other numbers of ranks, and PyTorch's own indices.
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "04_distributed_sampler/exercise/policy.hpp"
#include "common/join.hpp"
#include "common/random.hpp"
#include "tools/exercises/message_checks.hpp"

#include <array>
#include <map>
#include <numeric>

namespace dist::exercise {
namespace {

using Indices = std::vector<std::size_t>;
using Order = std::span<const std::size_t>;
using MyIndices = std::function<Indices(Order, int, int, Policy)>;
using IndicesAfter = std::function<Indices(Order, std::size_t, int, int, Policy)>;

using Policies = std::vector<Policy>;
const Policies kPolicies{Policy::pad, Policy::drop, Policy::exact};

// `n` different entries in shuffled order, all at least 10000, so that none can be mistaken for
// a place.
Indices shuffled(std::size_t n) {
  Indices order(n);
  for (std::size_t place = 0; place < n; ++place) {
    order[place] = 10000 + (place * 7919 + 31) % 99991;  // 99991 is prime, so no entry repeats
  }
  return order;
}

// Deals out the entries one by one, as the contract says.
Indices expected_shard(Order order, std::size_t taken, int num_replicas, int rank,
                       Policy policy) {
  const auto ranks = static_cast<std::size_t>(num_replicas);
  Indices mine;
  std::size_t place = taken;
  for (std::size_t turn_begins = taken; turn_begins < order.size(); turn_begins += ranks) {
    if (policy == Policy::drop && turn_begins + ranks > order.size()) break;
    for (std::size_t r = 0; r < ranks; ++r, ++place) {
      if (policy == Policy::exact && place >= order.size()) break;
      if (r == static_cast<std::size_t>(rank)) mine.push_back(order[place % order.size()]);
    }
  }
  return mine;
}

std::string show(Order indices) {
  const Order some = indices.first(std::min<std::size_t>(indices.size(), 12));
  return fmt::format("[{}{}]", join(some, " "), some.size() < indices.size() ? " ..." : "");
}

bool starts_with(Order all, Order first) {
  return std::ranges::equal(all.first(std::min(all.size(), first.size())), first);
}

bool is_permutation(Order a, Order b) {
  return a.size() == b.size() && std::ranges::is_permutation(a, b);
}

const std::string kZerosInFront =
    "a vector that was made with a length begins with that many zeros, and push_back comes "
    "after "
    "them: give it no length";

// Hints that are the same in each check of shards.
std::vector<Check> with_shard_hints(std::vector<Check> checks) {
  return with_hints(std::move(checks),
                    {{Seen::empty,
                      "if all entries have been taken, no rank may get any, whatever the "
                      "policy. `taken` may be "
                      "larger than order.size(): compare before you subtract"},
                     {Seen::reordered,
                      "these are the right samples in another order: a rank takes them in the "
                      "order of the turns, "
                      "and nothing sorts them"}});
}

std::string show_counted(Order indices) {
  return fmt::format("{} sample{} {}", indices.size(), indices.size() == 1 ? "" : "s",
                     show(indices));
}

// "10 samples, rank 2 of 4, pad, after 4".
std::string which(std::size_t samples, int num_replicas, int rank, Policy policy,
                  std::size_t taken = 0) {
  const std::array names{"pad", "drop", "exact"};
  return fmt::format("{} samples, rank {} of {}, {}{}", samples, rank, num_replicas,
                     names[static_cast<std::size_t>(policy)],
                     taken > 0 ? fmt::format(", after {}", taken) : "");
}

// Queries one rank at a time; `ranks` need not be the number of ranks in this job.
void expect_shards(Trial& trial, const IndicesAfter& solution, const Indices& order,
                   std::size_t taken, int ranks, const Policies& policies) {
  for (const Policy policy : policies) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Indices before = order;
      trial.call(which(order.size(), ranks, rank, policy, taken));
      const Indices got = solution(order, taken, ranks, rank, policy);
      trial.expect(order == before, "{}: the order has changed",
                   which(order.size(), ranks, rank, policy, taken));
      const Indices must = expected_shard(order, taken, ranks, rank, policy);
      if (got == must) continue;
      return trial.wrong(fmt::format("{}: for order {} you take {}, expected {}",
                                     which(order.size(), ranks, rank, policy, taken),
                                     show(order), show_counted(got), show_counted(must)),
                         must.empty()                                         ? Seen::empty
                         : is_permutation(got, must)                          ? Seen::reordered
                         : got.size() > must.size() && starts_with(got, must) ? Seen::too_many
                         : got.size() < must.size() && starts_with(must, got)
                             ? Seen::too_few
                             : Seen::something_else);
    }
  }
}

// The shards of all these numbers of samples, of which so many are taken, on all these numbers
// of ranks.
std::function<void(Trial&)> shards(const IndicesAfter& solution, const Indices& samples,
                                   const Indices& takens, const std::vector<int>& ranks,
                                   const Policies& policies) {
  return [=](Trial& trial) {
    for (const std::size_t n : samples) {
      for (const std::size_t taken : takens) {
        for (const int size : ranks) {
          expect_shards(trial, solution, shuffled(n), taken, size, policies);
        }
      }
    }
  };
}

// How often each sample is taken, over all ranks.
std::map<std::size_t, int> times_taken(const MyIndices& solution, const Indices& order,
                                       int ranks) {
  std::map<std::size_t, int> times;
  for (const std::size_t sample : order) times[sample] = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const std::size_t sample : solution(order, ranks, rank, Policy::pad)) ++times[sample];
  }
  return times;
}

// Compares with the lesson's own DistributedSampler, whose indices are PyTorch's
// (tests/04_distributed_sampler/sampler_test.cpp).
void expect_pytorch(Trial& trial, const MyIndices& solution) {
  const std::uint64_t epoch = 1;
  for (const std::size_t n : {1, 5, 10, 37, 1000, 60000}) {
    Generator generator(epoch);  // DistributedSampler's seed is 0, to which it adds the epoch
    const Indices order = randperm(n, generator);
    for (const int ranks : {1, 2, 3, 4, 8, 64}) {
      for (const Policy policy : {Policy::pad, Policy::drop}) {
        for (const int rank : {0, ranks / 2, ranks - 1}) {
          DistributedSampler sampler(n, ranks, rank, {.drop_last = policy == Policy::drop});
          sampler.set_epoch(epoch);
          const Indices got = solution(order, ranks, rank, policy), must = sampler.indices();
          trial.expect(got == must, "{}: PyTorch takes {}, you take {}",
                       which(n, ranks, rank, policy), show(must), show(got));
        }
      }
    }
  }
}

}  // namespace

std::vector<Check> checks_of_my_indices(const MyIndices& solution) {
  const IndicesAfter whole = [=](Order order, std::size_t, int ranks, int rank, Policy policy) {
    return solution(order, ranks, rank, policy);
  };
  return with_shard_hints({
      {"from-the-order",
       "all returned numbers must be entries of the order",
       "a rank's places are, for example, 1, 5 and 9. Return the entries at those places, "
       "order[place], not the places themselves. Otherwise no epoch is shuffled",
       [=](Trial& trial) {
         const Indices order = shuffled(12);
         Indices foreign;
         for (const auto& [sample, times] : times_taken(solution, order, 4)) {
           if (std::ranges::find(order, sample) == order.end()) foreign.push_back(sample);
         }
         trial.expect(foreign == Indices{0} ? Seen::zero : Seen::something_else,
                      foreign.empty(), "12 samples on 4 ranks, pad: {} is not in the order {}",
                      show(foreign), show(order));
       },
       {{Seen::zero, kZerosInFront}}},
      {"once",
       "if the samples divide evenly, every sample must be taken once",
       "all ranks must take entries of the same order in turn. If each rank shuffles on its "
       "own, for example with seed + rank, several ranks take some of the samples, and other "
       "samples are never taken",
       [=](Trial& trial) {
         for (const int ranks : {4, 1, 2, 3, 7}) {
           const Indices order = shuffled(10 * static_cast<std::size_t>(ranks));
           for (int rank = 0; rank < ranks; ++rank) {
             trial.call(which(order.size(), ranks, rank, Policy::pad));
             const std::size_t got = solution(order, ranks, rank, Policy::pad).size();
             trial.expect(got > 10 ? Seen::too_many : Seen::too_few, got == 10,
                          "{}: you take {} samples, expected 10",
                          which(order.size(), ranks, rank, Policy::pad), got);
           }
           for (const auto& [sample, times] : times_taken(solution, order, ranks)) {
             trial.expect(times == 1, "{} samples on {} ranks: sample {} is taken {} times",
                          order.size(), ranks, sample, times);
           }
         }
       },
       {{Seen::too_many,
         "if N divides n, there is nothing to pad: each rank takes n / N samples, and no turn "
         "more. The result may depend on this call's arguments alone"},
        {Seen::too_few,
         "each rank takes n / N samples, to the end of the order. The result may depend on "
         "this call's arguments alone"}}},
      {"turns", "the ranks must take the order's entries in turn",
       "rank r takes places r, r + N, r + 2 N, ...: the ranks take turns instead of taking one "
       "block each. Together, the k-th batches of all ranks are then block k of the order, as "
       "in a run on one process",
       [=](Trial& trial) {
         for (const int ranks : {4, 1, 2, 3, 7}) {
           const Indices order = shuffled(3 * static_cast<std::size_t>(ranks));
           expect_shards(trial, whole, order, 0, ranks, {Policy::pad});
         }
       }},
      {"pad",
       "padding must repeat the order from its beginning",
       "after its last entry, the order begins again: place p holds order[p % n]. Every rank "
       "takes ceil(n / N) entries, so the last turn is filled up from the beginning of the "
       "order",
       shards(whole, {10, 9, 11, 13, 997}, {0}, {4, 2, 3, 7}, {Policy::pad}),
       {{Seen::too_few,
         "n / N of whole numbers is already rounded down, so std::ceil comes too late: (n + N "
         "- 1) / N is rounded up"},
        {Seen::too_many,
         "one turn too many: padding ends as soon as all ranks have equally many"}}},
      {"drop", "dropping must leave out only the last, incomplete turn",
       "every rank takes floor(n / N) entries, and integer division already rounds down. If "
       "the samples divide evenly, nothing is dropped",
       shards(whole, {10, 12, 9, 11, 3, 997}, {0}, {4, 1, 2, 3, 7}, {Policy::drop})},
      {"exact", "Policy::exact must give every sample to exactly one rank",
       "Policy::exact neither pads nor drops: rank r takes the places r, r + N, ... that are "
       "less than n. Some ranks may get one sample fewer than others",
       shards(whole, {10, 12, 9, 11, 3, 997}, {0}, {4, 1, 2, 3, 7}, {Policy::exact})},
      {"few-samples", "it must also work with fewer samples than ranks, and with none",
       "3 samples on 8 ranks are padded to 8 places, so the order wraps around more than once: "
       "use p % n, not p - n. If there are no samples, every rank gets none, and you must not "
       "divide by n",
       shards(whole, {3, 1, 5, 0}, {0}, {8, 4, 16, 2, 3, 5, 7}, kPolicies)},
      {"pytorch", "the indices must be PyTorch's",
       "Policy::pad and Policy::drop are DistributedSampler's drop_last=False and "
       "drop_last=True, for any number of samples and ranks",
       [=](Trial& trial) {
         if (trial.rank() == 0) expect_pytorch(trial, solution);
       }},
  });
}

std::vector<Check> checks_of_indices_after(const IndicesAfter& solution) {
  return with_shard_hints({
      {"same-ranks", "on the same number of ranks, each rank must continue its own list",
       "after k turns of N ranks, `taken` is k N, not k: the first taken / N entries of a "
       "rank's own list are done. The ranks still take the remaining entries in turn",
       [=](Trial& trial) {
         for (const std::size_t n : {4, 1, 2, 3, 7}) {
           for (std::size_t turns = 0; turns <= 6; ++turns) {
             expect_shards(trial, solution, shuffled(6 * n), turns * n, static_cast<int>(n),
                           {Policy::pad});
           }
         }
       }},
      {"other-ranks",
       "on a different number of ranks, no entry may be lost or repeated",
       "the old lists do not fit a new number of ranks. Continue at place `taken` of the order "
       "itself: rank r takes places taken + r, taken + r + N, ...",
       [=](Trial& trial) {
         for (const std::size_t before : {3, 4, 7, 2, 1}) {
           for (const std::size_t n : {2, 4, 3, 7}) {
             expect_shards(trial, solution, shuffled(2 * before + 5 * n), 2 * before,
                           static_cast<int>(n), {Policy::pad});
           }
         }
       },
       {{Seen::too_many,
         "the last turn begins before order.size(): count the entries that are left, from "
         "place `taken`, not from place 0"},
        {Seen::too_few,
         "the last turn begins before order.size(): count the entries that are left, from "
         "place `taken`, not from place 0"}}},
      {"policies", "the policy must apply to the entries that are left",
       "count only the entries that are left, order.size() - taken: every rank takes ceil(left "
       "/ N) or floor(left / N). Padding starts with the order's first entry, order[place % n]",
       shards(solution, {10, 11, 23}, {6, 0, 1, 8, 9}, {4, 2, 3, 7}, kPolicies)},
      {"nothing-left", "if all entries have been taken, no rank may get any",
       "because of padding, `taken` may be larger than order.size(). Their difference is then "
       "very large instead of negative, so compare before you subtract",
       shards(solution, {10, 3, 0}, {10, 11, 12, 15}, {4, 1, 8}, kPolicies)},
      {"few-samples", "it must also work if fewer entries are left than there are ranks",
       "if 1 entry of 3 is left for 8 ranks, it is padded to 8 places, so the order wraps "
       "around more than once: use p % n, not p - n",
       shards(solution, {3, 1, 5, 0}, {0, 1, 2, 3, 4, 5}, {8, 16, 7, 3}, kPolicies)},
  });
}

}  // namespace dist::exercise
