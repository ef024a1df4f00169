// What this file adds: 8 ranks played by 1, 2, 4 or 8 processes (--deterministic). A run then
// is data parallelism on 8 ranks, however many processes there are: what depends on the number
// of ranks, such as who gets which samples, depends on 8.
// Builds on: 04, distributed_sampler.
// Look at: the order in which a process plays its ranks; tree_sum.hpp says what it is good for.
#pragma once

#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/communicator.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dist {

// Which ranks this process plays. Of one process; needs no other.
class VirtualRanks {
 public:
  // How many --deterministic has.
  static constexpr int kCount = 8;

  // Every process is one rank: data parallelism as usual.
  explicit VirtualRanks(const Communicator& comm)
      : VirtualRanks(comm.size(), comm.size(), comm.rank()) {}
  // Process p of P plays the ranks p, p + P, p + 2 P, ... below `count`. Throws Error unless
  // each process gets 1, 2, 4, 8, ... of them.
  VirtualRanks(int count, int processes, int process);

  int count() const { return count_; }
  // The ranks of this process, in the order in which it plays them: the halves, quarters, ...
  // of `count` first, so that neighbours in this list are neighbours in the tree (tree_sum). Of
  // 8 ranks:
  //
  //   1 process    0 4 2 6 1 5 3 7
  //   2            0 4 2 6 | 1 5 3 7
  //   4            0 4 | 1 5 | 2 6 | 3 7
  std::span<const int> local() const& { return local_; }
  std::span<const int> local() const&& = delete;  // would outlive the list
  std::size_t per_process() const { return local_.size(); }

 private:
  int count_;
  std::vector<int> local_;
};

// The samples of all ranks that this process plays, in the order in which it learns from them:
// step after step, and in each step rank after rank, `batch_size` samples of each (04,
// BatchPlan). Where a process is one rank this is its DistributedSampler.
class VirtualSampler {
 public:
  // `batch_size` is of one rank.
  VirtualSampler(std::size_t dataset_size, const VirtualRanks& ranks, std::size_t batch_size,
                 SamplerOptions options = {});

  void set_epoch(std::uint64_t epoch);

  std::size_t num_samples() const;  // of this process; equal on all
  std::size_t total_size() const;   // of all processes

  // As DistributedSampler's. `taken` counts samples of the common order, as there: after k
  // steps it is k times the batch of all ranks, so a run goes on from where another one
  // stopped, on any number of processes.
  std::vector<std::size_t> indices() const { return indices_after(0); }
  std::vector<std::size_t> indices_after(std::size_t taken) const;

 private:
  std::size_t batch_size_;
  std::vector<DistributedSampler> samplers_;  // in the order of VirtualRanks::local
};

}  // namespace dist
