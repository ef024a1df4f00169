// What this file adds: 8 virtual ranks played by 1, 2, 4 or 8 processes (--deterministic).
// However many processes there are, such a run is data parallelism on 8 ranks, so everything
// that depends on the number of ranks, such as each rank's share of the samples, stays equal.
// Builds on: 04, distributed_sampler and batch.
// Look at: the order in which a process plays its ranks. tree_sum.hpp explains why it matters.
#pragma once

#include "04_distributed_sampler/batch.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/communicator.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dist {

// The virtual ranks that this process plays. They are computed without communication.
class VirtualRanks {
 public:
  // The number of virtual ranks with --deterministic.
  static constexpr int kCount = 8;

  // Every process is one rank, as in ordinary data parallelism.
  explicit VirtualRanks(const Communicator& comm)
      : VirtualRanks(comm.size(), comm.size(), comm.rank()) {}
  // Process p of P plays the ranks p, p + P, p + 2 P, ... below `count`. Throws Error unless
  // each process gets the same number of ranks and that number is a power of two.
  VirtualRanks(int count, int processes, int process);

  int count() const { return count_; }
  // The ranks of this process, in the order in which it plays them. Ranks whose numbers differ
  // by count / 2 are next to each other, so neighbours in this list are neighbours in the tree
  // of tree_sum. With 8 ranks:
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

// The batches of all ranks that this process plays, in the order in which the process learns
// from them. Each rank has a DistributedSampler of its own. In turn, the ranks take one batch
// each, and a step ends when each rank has taken its batches of that step. For example, these
// are the batches of a process that plays ranks a and b, with 5 samples each in batches of 2:
//
//   a a | b b | a a | b b | a | b
//   step 0      step 1      step 2
class VirtualSampler {
 public:
  // `plan` is that of one rank.
  VirtualSampler(std::size_t dataset_size, const VirtualRanks& ranks, const BatchPlan& plan,
                 SamplerOptions options = {});

  void set_epoch(std::uint64_t epoch);

  std::size_t num_samples() const;  // of this process; equal on all processes
  std::size_t total_size() const;   // of all processes

  // Like the functions of DistributedSampler, but with the indices batch by batch. `taken`
  // counts samples in the common order of all ranks: after k steps, it is k times the number of
  // samples that all ranks take in a step. A run can therefore continue where another run
  // stopped, even on a different number of processes.
  std::vector<BatchSamples> indices() const { return indices_after(0); }
  std::vector<BatchSamples> indices_after(std::size_t taken) const;

 private:
  BatchPlan plan_;
  std::vector<DistributedSampler> samplers_;  // in the order of VirtualRanks::local
};

}  // namespace dist
