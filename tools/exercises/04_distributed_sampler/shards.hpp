// Shared by the checks of what each rank reads in an epoch, and in the rest of one: the right
// shards, and what is seen of a wrong one.
#pragma once

#include "04_distributed_sampler/exercise/policy.hpp"
#include "common/join.hpp"
#include "tools/exercises/exercise.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace dist::exercise {

using Indices = std::vector<std::size_t>;
using Order = std::span<const std::size_t>;
using MyIndices = std::function<Indices(Order, int, int, Policy)>;
using IndicesAfter = std::function<Indices(Order, std::size_t, int, int, Policy)>;

using Policies = std::vector<Policy>;
inline const Policies kPolicies{Policy::pad, Policy::drop, Policy::exact};

// `n` different entries in shuffled order, all at least 10000, so that none can be mistaken for
// a place.
inline Indices shuffled(std::size_t n) {
  Indices order(n);
  for (std::size_t place = 0; place < n; ++place) {
    order[place] = 10000 + (place * 7919 + 31) % 99991;  // 99991 is prime, so no entry repeats
  }
  return order;
}

// Deals out the entries one by one, as the contract says.
inline Indices expected_shard(Order order, std::size_t taken, int num_replicas, int rank,
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

inline std::string show(Order indices) {
  const Order some = indices.first(std::min<std::size_t>(indices.size(), 12));
  return fmt::format("[{}{}]", join(some, " "), some.size() < indices.size() ? " ..." : "");
}

inline bool starts_with(Order all, Order first) {
  return std::ranges::equal(all.first(std::min(all.size(), first.size())), first);
}

inline bool is_permutation(Order a, Order b) {
  return a.size() == b.size() && std::ranges::is_permutation(a, b);
}

inline const std::string kZerosInFront =
    "a vector that was made with a length begins with that many zeros, and push_back comes "
    "after them: give it no length";

// Hints that are the same in each check of shards.
inline std::vector<Check> with_shard_hints(std::vector<Check> checks) {
  return with_hints(std::move(checks),
                    {{Seen::empty,
                      "if all entries have been taken, no rank may get any, whatever the "
                      "policy. `taken` may be larger than order.size(): compare before you "
                      "subtract"},
                     {Seen::fewer,
                      "dropping leaves floor(left / N) entries for a rank, of those that are "
                      "left, and here that is none: look whether a rank has a turn before you "
                      "take its entry"},
                     {Seen::elsewhere,
                      "the order is shuffled already, and it is the same on all ranks: take "
                      "its entries from the first place to the last, and neither shuffle nor "
                      "sort them"},
                     {Seen::reordered,
                      "these are the right samples in another order: a rank takes them in the "
                      "order of the turns, and nothing sorts them"}});
}

// Where these entries are in the order; empty if one is not there.
inline Indices places_of(Order entries, Order order) {
  Indices places;
  for (const std::size_t entry : entries) {
    const auto found = std::ranges::find(order, entry);
    if (found == order.end()) return {};
    places.push_back(static_cast<std::size_t>(found - order.begin()));
  }
  return places;
}

inline bool goes_back(Order places) {
  return !std::ranges::is_sorted(places);
}

inline std::string show_places(Order places) {
  return places.empty() ? "" : " from places " + show(places);
}

inline std::string show_counted(Order indices) {
  return fmt::format("{} sample{} {}", indices.size(), indices.size() == 1 ? "" : "s",
                     show(indices));
}

// Of my_indices, which knows of no earlier run.
inline constexpr std::size_t kNoneTaken = std::numeric_limits<std::size_t>::max();

// "10 samples, rank 2 of 4, pad, after 4".
inline std::string which(std::size_t samples, int num_replicas, int rank, Policy policy,
                         std::size_t taken = kNoneTaken) {
  const std::array names{"pad", "drop", "exact"};
  return fmt::format("{} samples, rank {} of {}, {}{}", samples, rank, num_replicas,
                     names[static_cast<std::size_t>(policy)],
                     taken != kNoneTaken ? fmt::format(", after {}", taken) : "");
}

// Queries one rank at a time; `ranks` need not be the number of ranks in this job.
inline void expect_shards(Trial& trial, const IndicesAfter& solution, const Indices& order,
                          std::size_t taken, int ranks, const Policies& policies) {
  for (const Policy policy : policies) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Indices before = order;
      trial.call(which(order.size(), ranks, rank, policy, taken));
      const Indices got = solution(order, taken, ranks, rank, policy);
      trial.expect(order == before, "{}: the order has changed",
                   which(order.size(), ranks, rank, policy, taken));
      const std::size_t from = taken == kNoneTaken ? 0 : taken;
      const Indices must = expected_shard(order, from, ranks, rank, policy);
      if (got == must) continue;
      const Indices places = places_of(got, order);
      const bool is_shuffled =
          got.size() <= must.size() && goes_back(places) && !goes_back(places_of(must, order));
      return trial.wrong(
          fmt::format("{}: for order {} you take {}{}, expected {}",
                      which(order.size(), ranks, rank, policy, taken), show(order),
                      show_counted(got), show_places(places), show_counted(must)),
          must.empty() && from >= order.size()                 ? Seen::empty
          : must.empty()                                       ? Seen::fewer
          : is_permutation(got, must)                          ? Seen::reordered
          : is_shuffled                                        ? Seen::elsewhere
          : got.size() > must.size() && starts_with(got, must) ? Seen::too_many
          : got.size() < must.size() && starts_with(must, got) ? Seen::too_few
                                                               : Seen::something_else);
    }
  }
}

// The shards of all these numbers of samples, of which so many are taken, on all these numbers
// of ranks.
inline std::function<void(Trial&)> shards(const IndicesAfter& solution, const Indices& samples,
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

inline const std::map<Seen, std::string> kWrapsAgain{
    {Seen::crash,
     "with few samples, the turns wrap around more than once, so p - n may still be beyond the "
     "end: order[p % n]. And in an empty order, there is no place at all, and n is 0"}};

}  // namespace dist::exercise
