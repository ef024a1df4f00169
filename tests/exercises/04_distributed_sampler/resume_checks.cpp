// Checks of resuming: on the same number of ranks, on other numbers of ranks, and with few or
// no samples left.
#include "tests/exercises/04_distributed_sampler/checks.hpp"
#include "tests/exercises/04_distributed_sampler/shards.hpp"

namespace dist::exercise {
namespace {

void expect_rest(Trial& trial, const IndicesAfter& solution, std::span<const std::size_t> order,
                 std::size_t taken, int ranks, Policy policy) {
  for (int rank = 0; rank < ranks; ++rank) {
    const Indices got = solution(order, taken, ranks, rank, policy);
    const Indices must = expected_shard(order, taken, ranks, rank, policy);
    if (got == must) continue;
    return trial.wrong(fmt::format("{}, after {}: for order {} you take {}, expected {}",
                                   which(order.size(), ranks, rank, policy), taken, show(order),
                                   show(got), show(must)));
  }
}

}  // namespace

std::vector<Check> checks_of_indices_after(const IndicesAfter& solution) {
  return {
      {"same-ranks", "on the same number of ranks, each rank continues its own list",
       "after k turns of N ranks, `taken` is k N, not k: the first taken / N entries of a "
       "rank's own list are done. The ranks still take the remaining entries in turn",
       [=](Trial& trial) {
         for (const int ranks : {4, 1, 2, 3, 7}) {
           const auto n = static_cast<std::size_t>(ranks);
           const std::vector<std::size_t> order = shuffled(6 * n);
           for (std::size_t turns = 0; turns <= 6; ++turns) {
             expect_rest(trial, solution, order, turns * n, ranks, Policy::pad);
           }
         }
       }},
      {"other-ranks", "on a different number of ranks, no entry is lost or repeated",
       "the old lists do not fit a new number of ranks. Continue at place `taken` of the order "
       "itself: rank r takes places taken + r, taken + r + N, ...",
       [=](Trial& trial) {
         for (const std::size_t before : {3, 4, 7, 2, 1}) {
           for (const int ranks : {2, 4, 3, 7}) {
             const auto n = static_cast<std::size_t>(ranks);
             const std::size_t taken = 2 * before;
             const std::vector<std::size_t> order = shuffled(taken + 5 * n);
             expect_rest(trial, solution, order, taken, ranks, Policy::pad);
           }
         }
       }},
      {"policies", "the policy applies to the entries that are left",
       "count only the entries that are left, order.size() - taken: every rank takes "
       "ceil(left / N) or floor(left / N). Padding starts with the order's first entry, "
       "order[place % n]",
       [=](Trial& trial) {
         for (const Policy policy : kPolicies) {
           for (const std::size_t taken : {6, 0, 1, 8, 9}) {
             for (const int ranks : {4, 2, 3, 7}) {
               for (const std::size_t n : {10, 11, 23}) {
                 expect_rest(trial, solution, shuffled(n), taken, ranks, policy);
               }
             }
           }
         }
       }},
      {"nothing-left", "if all entries have been taken, no rank gets any",
       "because of padding, `taken` may be larger than order.size(). Their difference is then "
       "very large instead of negative, so compare before you subtract",
       [=](Trial& trial) {
         for (const Policy policy : kPolicies) {
           for (const std::size_t n : {10, 3, 0}) {
             for (const std::size_t more : {0, 1, 2, 5}) {
               for (const int ranks : {4, 1, 8}) {
                 expect_rest(trial, solution, shuffled(n), n + more, ranks, policy);
               }
             }
           }
         }
       }},
      {"few-samples", "the function also works if fewer entries are left than there are ranks",
       "if 1 entry of 3 is left for 8 ranks, it is padded to 8 places, so the order wraps "
       "around more than once: use p % n, not p - n",
       [=](Trial& trial) {
         for (const Policy policy : kPolicies) {
           for (const std::size_t n : {3, 1, 5}) {
             for (std::size_t taken = 0; taken <= n; ++taken) {
               for (const int ranks : {8, 16, 7}) {
                 expect_rest(trial, solution, shuffled(n), taken, ranks, policy);
               }
             }
           }
         }
       }},
      {"values", "each rank takes its own entries of what is left",
       "rank r takes places taken + r, taken + r + N, ... of the order",
       [=](Trial& trial) {
         std::vector<std::size_t> order(101);
         for (std::size_t i = 0; i < order.size(); ++i) {
           order[i] = static_cast<std::size_t>(trial.value(1, i * 37 % 101));
         }
         for (const Policy policy : kPolicies) {
           expect_rest(trial, solution, order, 42, 4, policy);
           expect_rest(trial, solution, order, 40, 3, policy);
         }
       }},
  };
}

}  // namespace dist::exercise
