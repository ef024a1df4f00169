// What this file adds: 8 virtual ranks on 1, 2, 4 or 8 processes (--deterministic).
// However many processes there are, such a run is data parallelism on 8 ranks, so everything
// that depends on the number of ranks, such as each rank's share of the samples, stays equal.
// Builds on: 04, distributed_sampler and batch.
// Look at: the order of a process's ranks. tree_sum.hpp explains why it matters.
#pragma once

#include "04_distributed_sampler/batch_plan.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/communicator.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace dist {

// The virtual ranks of this process. They are computed without communication.
class VirtualRanks {
 public:
  // The number of virtual ranks with --deterministic.
  static constexpr int kCount = 8;

  // Every process is one rank, as in ordinary data parallelism.
  explicit VirtualRanks(const Communicator& comm)
      : VirtualRanks(comm.size(), comm.size(), comm.rank()) {}
  // Process p of P simulates the ranks p, p + P, p + 2 P, ... below `count`. Each process must
  // get the same number of ranks, and that number must be a power of two.
  VirtualRanks(int count, int processes, int process) : count_(count) {
    // Double the list repeatedly by appending a copy to which `distance` is added:
    // 0, then 0 4, then 0 4 2 6, then 0 4 2 6 1 5 3 7.
    local_.push_back(process);
    for (int distance = count / 2; distance >= processes; distance /= 2) {
      const std::size_t known = local_.size();
      for (std::size_t i = 0; i < known; ++i) local_.push_back(local_[i] + distance);
    }
  }

  int count() const { return count_; }
  // The ranks of this process, in the order in which it simulates them. Neighbours in this list
  // are neighbours in the tree of tree_sum. With 8 ranks:
  //
  //   1 process    0 4 2 6 1 5 3 7
  //   2            0 4 2 6 | 1 5 3 7
  //   4            0 4 | 1 5 | 2 6 | 3 7
  std::span<const int> local() const& { return local_; }
  std::span<const int> local() const&& = delete;  // the span would outlive the list
  std::size_t per_process() const { return local_.size(); }

 private:
  int count_;
  std::vector<int> local_;
};

// The batches of all ranks of this process, in the order in which it learns from them,
// without the first `taken` samples of all ranks. `plan` is that of one rank. In turn, the
// ranks take one batch each, and a step ends when each rank has taken its batches of that step.
// For example, a process simulates ranks a and b, with 5 samples each in batches of 2:
//
//   a a | b b | a a | b b | a | b
//   step 0      step 1      step 2
//
// A step takes the same samples on any number of processes, so a run can continue where another
// run stopped, even on a different number of them.
inline std::vector<BatchSamples> batches_in_turn(std::size_t dataset_size,
                                                 const VirtualRanks& ranks,
                                                 const BatchPlan& plan, SamplerOptions options,
                                                 std::uint64_t epoch, std::size_t taken) {
  std::vector<std::vector<BatchSamples>> of_rank;  // equally many, and of equal sizes
  for (const int rank : ranks.local()) {
    DistributedSampler sampler(dataset_size, ranks.count(), rank, options);
    sampler.set_epoch(epoch);
    of_rank.push_back(plan.divide(sampler.indices_after(taken)));
  }
  const std::size_t ranks_here = of_rank.size();
  std::vector<BatchSamples> in_turn;
  for (std::size_t b = 0; b < of_rank[0].size(); ++b) {
    for (std::size_t r = 0; r < ranks_here; ++r) {
      BatchSamples& batch = in_turn.emplace_back(std::move(of_rank[r][b]));
      batch.place.part = batch.place.part * ranks_here + r;
      batch.place.parts *= ranks_here;
      batch.place.ends_epoch = batch.place.ends_epoch && r + 1 == ranks_here;
    }
  }
  return in_turn;
}

}  // namespace dist
