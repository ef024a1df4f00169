// Checks of the sampler's rule: samples that divide evenly, a remainder, and PyTorch's own
// indices.
#include "02_broadcast/random.hpp"
#include "tests/exercises/04_distributed_sampler/checks.hpp"
#include "tests/exercises/04_distributed_sampler/shards.hpp"
#include "tests/support/golden.hpp"

#include <map>
#include <numeric>

namespace dist::exercise {
namespace {

// Queries one rank at a time; `ranks` need not be the number of ranks in this job.
void expect_shard(Trial& trial, const MyIndices& solution, std::span<const std::size_t> order,
                  int ranks, Policy policy) {
  for (int rank = 0; rank < ranks; ++rank) {
    const Indices got = solution(order, ranks, rank, policy);
    const Indices must = expected_shard(order, 0, ranks, rank, policy);
    if (got == must) continue;
    return trial.wrong(fmt::format("{}: for order {} you take {}, expected {}",
                                   which(order.size(), ranks, rank, policy), show(order),
                                   show(got), show(must)));
  }
}

// How often each sample is taken, over all ranks.
std::map<std::size_t, int> times_taken(const MyIndices& solution,
                                       std::span<const std::size_t> order, int ranks) {
  std::map<std::size_t, int> times;
  for (const std::size_t sample : order) times[sample] = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const std::size_t sample : solution(order, ranks, rank, Policy::pad)) ++times[sample];
  }
  return times;
}

void expect_pytorch(Trial& trial, const MyIndices& solution) {
  const auto file = test::golden("sampler.json");
  for (const auto& entry : file.at("cases")) {
    const auto n = entry.at("n").get<std::size_t>();
    const auto ranks = entry.at("world").get<int>();
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (entry.at("shuffle").get<bool>()) {
      Generator generator(entry.at("seed").get<std::uint64_t>() +
                          entry.at("epoch").get<std::uint64_t>());
      order = randperm(n, generator);
    }
    const Policy policy = entry.at("drop_last").get<bool>() ? Policy::drop : Policy::pad;
    for (int rank = 0; rank < ranks; ++rank) {
      const Indices got = solution(order, ranks, rank, policy);
      const auto r = static_cast<std::size_t>(rank);
      const bool same =
          entry.contains("indices")
              ? got == entry.at("indices").at(r).get<Indices>()
              : test::hash_of(std::vector<std::int64_t>(got.begin(), got.end())) ==
                    entry.at("sha256_i64").at(r).get<std::string>();
      trial.expect(
          same, "{}",
          which(n, ranks, rank, policy) + ": these are not PyTorch's indices: " + show(got));
    }
  }
}

}  // namespace

std::vector<Check> checks_of_my_indices(const MyIndices& solution) {
  return {
      {"from-the-order", "all returned numbers are entries of the order",
       "a rank's places are, for example, 1, 5 and 9. Return the entries at those places, "
       "order[place], not the places themselves. Otherwise no epoch is shuffled",
       [=](Trial& trial) {
         const std::vector<std::size_t> order = shuffled(12);
         for (int rank = 0; rank < 4; ++rank) {
           for (const std::size_t sample : solution(order, 4, rank, Policy::pad)) {
             trial.expect(std::ranges::find(order, sample) != order.end(),
                          "{}: {} is not in the order {}", which(12, 4, rank, Policy::pad),
                          sample, show(order));
           }
         }
       }},
      {"once", "if the samples divide evenly, every sample is taken once",
       "all ranks must take entries of the same order in turn. If each rank shuffles on its "
       "own, for example with seed + rank, several ranks take some of the samples, and other "
       "samples are never taken",
       [=](Trial& trial) {
         for (const int ranks : {4, 1, 2, 3, 7}) {
           const std::vector<std::size_t> order =
               shuffled(10 * static_cast<std::size_t>(ranks));
           for (const auto& [sample, times] : times_taken(solution, order, ranks)) {
             trial.expect(times == 1, "{} samples on {} ranks: sample {} is taken {} times",
                          order.size(), ranks, sample, times);
           }
         }
       }},
      {"turns", "the ranks take the order's entries in turn",
       "rank r takes places r, r + N, r + 2 N, ...: the ranks take turns instead of taking one "
       "block each. Together, the k-th batches of all ranks are then block k of the order, as "
       "in a run on one process",
       [=](Trial& trial) {
         for (const int ranks : {4, 1, 2, 3, 7}) {
           expect_shard(trial, solution, shuffled(3 * static_cast<std::size_t>(ranks)), ranks,
                        Policy::pad);
         }
       }},
      {"pad", "padding repeats the order from its beginning",
       "after its last entry, the order begins again: place p holds order[p % n]. Every rank "
       "takes ceil(n / N) entries, so the last turn is filled up from the beginning of the "
       "order",
       [=](Trial& trial) {
         for (const std::size_t n : {10, 9, 11, 13, 997}) {
           for (const int ranks : {4, 2, 3, 7}) {
             expect_shard(trial, solution, shuffled(n), ranks, Policy::pad);
           }
         }
       }},
      {"drop", "dropping leaves out only the last, incomplete turn",
       "every rank takes floor(n / N) entries, and integer division already rounds down. If "
       "the samples divide evenly, nothing is dropped",
       [=](Trial& trial) {
         for (const std::size_t n : {10, 12, 9, 11, 3, 997}) {
           for (const int ranks : {4, 1, 2, 3, 7}) {
             expect_shard(trial, solution, shuffled(n), ranks, Policy::drop);
           }
         }
       }},
      {"exact", "Policy::exact gives every sample to exactly one rank",
       "Policy::exact neither pads nor drops: rank r takes the places r, r + N, ... that are "
       "less than n. Some ranks may get one sample fewer than others",
       [=](Trial& trial) {
         for (const std::size_t n : {10, 12, 9, 11, 3, 997}) {
           for (const int ranks : {4, 1, 2, 3, 7}) {
             expect_shard(trial, solution, shuffled(n), ranks, Policy::exact);
           }
         }
       }},
      {"few-samples", "the function also works with fewer samples than ranks, and with none",
       "3 samples on 8 ranks are padded to 8 places, so the order wraps around more than once: "
       "use p % n, not p - n. If there are no samples, every rank gets none, and you must "
       "not divide by n",
       [=](Trial& trial) {
         for (const std::size_t n : {3, 1, 5, 0}) {
           for (const int ranks : {8, 4, 16, 2}) {
             for (const Policy policy : kPolicies) {
               expect_shard(trial, solution, shuffled(n), ranks, policy);
             }
           }
         }
       }},
      {"values", "each rank takes its own samples",
       "rank r takes the entries at places r, r + N, r + 2 N, ... of the order",
       [=](Trial& trial) {
         std::vector<std::size_t> order(101);
         for (std::size_t i = 0; i < order.size(); ++i) {
           order[i] = static_cast<std::size_t>(trial.value(1, i * 37 % 101));
         }
         for (const int ranks : {4, 3}) {
           for (const Policy policy : kPolicies) {
             expect_shard(trial, solution, order, ranks, policy);
           }
         }
       }},
      {"pytorch", "the indices are PyTorch's",
       "Policy::pad and Policy::drop are DistributedSampler's drop_last=False and "
       "drop_last=True. Your indices must match PyTorch's for all ranks in the 27 cases of "
       "tests/golden/sampler.json",
       [=](Trial& trial) {
         if (trial.rank() == 0) expect_pytorch(trial, solution);
       }},
  };
}

}  // namespace dist::exercise
