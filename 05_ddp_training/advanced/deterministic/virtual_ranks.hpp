// What this file adds: 8 virtual ranks played by 1, 2, 4 or 8 processes (--deterministic). With
// any number of processes such a run is data parallelism on 8 ranks, so everything that depends
// on the number of ranks, such as the share of the samples, stays the same.
// Builds on: 04, distributed_sampler.
// Look at: the order in which a process plays its ranks. tree_sum.hpp explains why it matters.
#pragma once

#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/communicator.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dist {

// The virtual ranks that this process plays. Computed without communication.
class VirtualRanks {
 public:
  // The number of virtual ranks with --deterministic.
  static constexpr int kCount = 8;

  // Every process is one rank, as in ordinary data parallelism.
  explicit VirtualRanks(const Communicator& comm)
      : VirtualRanks(comm.size(), comm.size(), comm.rank()) {}
  // Process p of P plays the ranks p, p + P, p + 2 P, ... below `count`. Throws Error unless
  // each process gets the same number of them and that number is a power of two.
  VirtualRanks(int count, int processes, int process);

  int count() const { return count_; }
  // The ranks of this process, in the order in which it plays them. Ranks that are count / 2
  // apart come next to each other, so neighbours in this list are neighbours in the tree of
  // tree_sum. With 8 ranks:
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

// The samples of all ranks that this process plays, in the order in which it learns from them:
// step by step, and within each step rank by rank, `batch_size` samples of each (lesson 4,
// BatchPlan). If the process is a single rank, this equals its DistributedSampler.
class VirtualSampler {
 public:
  // `batch_size` is for one rank.
  VirtualSampler(std::size_t dataset_size, const VirtualRanks& ranks, std::size_t batch_size,
                 SamplerOptions options = {});

  void set_epoch(std::uint64_t epoch);

  std::size_t num_samples() const;  // of this process; equal on all processes
  std::size_t total_size() const;   // of all processes

  // Like DistributedSampler's. `taken` counts samples of the order common to all ranks: after k
  // steps it is k times the batch of all ranks together. A run can therefore continue where
  // another run stopped, on any number of processes.
  std::vector<std::size_t> indices() const { return indices_after(0); }
  std::vector<std::size_t> indices_after(std::size_t taken) const;

 private:
  std::size_t batch_size_;
  std::vector<DistributedSampler> samplers_;  // in the order of VirtualRanks::local
};

}  // namespace dist
