// What this file adds: two numbers that no rank knows alone, by lesson 3's all-reduce.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/evaluation.hpp"
#include "05_ddp_training/virtual_ranks.hpp"

#include <array>
#include <cstdint>

namespace dist {

// Called on all ranks: the mean of each rank's own mean loss, the same on all. Rank 0's own
// would be the loss of rank 0's samples.
inline double mean_over_ranks(const Communicator& comm, double value) {
  std::array mean{value};
  all_reduce<double>(comm, mean, ReduceOp::avg, AllReduceAlgorithm::recursive_doubling);
  return mean[0];
}

// Called on all ranks: the fraction of `test` that the model gets right, the same on all. Every
// rank tests its own part of the set, no sample twice, and the counts are added up; so the
// result does not depend on the number of ranks.
inline double test_accuracy(const Communicator& comm, const VirtualRanks& ranks, Mlp& model,
                            const Dataset& test, const Stream& stream) {
  std::array<std::uint64_t, 1> correct{0};
  for (const int rank : ranks.local()) {
    correct[0] +=
        count_correct(model, test, exact_shard(test.size(), ranks.count(), rank), stream);
  }
  all_reduce<std::uint64_t>(comm, correct, ReduceOp::sum,
                            AllReduceAlgorithm::recursive_doubling);
  return static_cast<double>(correct[0]) / static_cast<double>(test.size());
}

}  // namespace dist
