// Checks of what each rank reads in the rest of an epoch: the same and other numbers of ranks,
// every policy, few samples, and none.
#include "tools/exercises/04_distributed_sampler/shards.hpp"

namespace dist::exercise {

std::vector<Check> checks_of_indices_after(const IndicesAfter& solution) {
  return with_shard_hints({
      {"same-ranks",
       "on the same number of ranks, each rank must continue its own list",
       "after k turns of N ranks, `taken` is k N, not k: the first taken / N entries of a "
       "rank's own list are done. The ranks still take the remaining entries in turn",
       [=](Trial& trial) {
         for (const std::size_t n : {4, 1, 2, 3, 7}) {
           for (std::size_t turns = 0; turns <= 6; ++turns) {
             expect_shards(trial, solution, shuffled(6 * n), turns * n, static_cast<int>(n),
                           {Policy::pad});
           }
         }
       },
       {{Seen::too_few,
         "you begin where you must, and end too early: places are counted from the beginning "
         "of "
         "the order, so the turns end at `taken` plus what is left, rounded as the policy "
         "says"},
        {Seen::too_many,
         "one turn too many: if N divides what is left, nothing is padded. ceil(left / N) is "
         "(left + N - 1) / N, and not left / N + 1"}}},
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
       shards(solution, {3, 1, 5, 0}, {0, 1, 2, 3, 4, 5}, {8, 16, 7, 3}, kPolicies),
       kWrapsAgain},
  });
}

}  // namespace dist::exercise
