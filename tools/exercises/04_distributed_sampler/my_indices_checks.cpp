// Checks of what each rank reads in an epoch: every policy, few samples, none, and PyTorch's
// own indices.
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/random.hpp"
#include "tools/exercises/04_distributed_sampler/shards.hpp"

namespace dist::exercise {
namespace {

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
           expect_shards(trial, whole, order, kNoneTaken, ranks, {Policy::pad});
         }
       }},
      {"pad",
       "padding must repeat the order from its beginning",
       "after its last entry, the order begins again: place p holds order[p % n]. Every rank "
       "takes ceil(n / N) entries, so the last turn is filled up from the beginning of the "
       "order",
       shards(whole, {10, 9, 11, 13, 997}, {kNoneTaken}, {4, 2, 3, 7}, {Policy::pad}),
       {{Seen::too_few,
         "n / N of whole numbers is already rounded down, so std::ceil comes too late: (n + N "
         "- 1) / N is rounded up"},
        {Seen::too_many,
         "one turn too many: padding ends as soon as all ranks have equally many"}}},
      {"drop", "dropping must leave out only the last, incomplete turn",
       "every rank takes floor(n / N) entries, and integer division already rounds down. If "
       "the samples divide evenly, nothing is dropped",
       shards(whole, {10, 12, 9, 11, 3, 997}, {kNoneTaken}, {4, 1, 2, 3, 7}, {Policy::drop})},
      {"exact", "Policy::exact must give every sample to exactly one rank",
       "Policy::exact neither pads nor drops: rank r takes the places r, r + N, ... that are "
       "less than n. Some ranks may get one sample fewer than others",
       shards(whole, {10, 12, 9, 11, 3, 997}, {kNoneTaken}, {4, 1, 2, 3, 7}, {Policy::exact})},
      {"few-samples", "it must also work with fewer samples than ranks, and with none",
       "3 samples on 8 ranks are padded to 8 places, so the order wraps around more than once: "
       "use p % n, not p - n. If there are no samples, every rank gets none, and you must not "
       "divide by n",
       shards(whole, {3, 1, 5, 0}, {kNoneTaken}, {8, 4, 16, 2, 3, 5, 7}, kPolicies),
       kWrapsAgain},
      {"pytorch", "the indices must be PyTorch's",
       "Policy::pad and Policy::drop are DistributedSampler's drop_last=False and "
       "drop_last=True, for any number of samples and ranks",
       [=](Trial& trial) {
         if (trial.rank() == 0) expect_pytorch(trial, solution);
       }},
  });
}

}  // namespace dist::exercise
