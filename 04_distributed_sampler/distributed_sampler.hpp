// What this file adds: the choice of each rank's samples. Every rank computes its own shard
// without a message, and together the shards cover the data set
// (torch.utils.data.distributed.DistributedSampler).
// Builds on: PyTorch's randperm (common/random.hpp).
// Look at: why all ranks must use the same seed, and what set_epoch changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dist {

struct SamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;  // the same on all ranks: not seed + rank, and not the model's seed
  bool drop_last = false;  // drop the remainder instead of padding
};

// Gives the same indices as PyTorch for the same arguments. Any rank may use a sampler alone.
class DistributedSampler {
 public:
  // Throws Error unless 0 <= rank < num_replicas.
  DistributedSampler(std::size_t dataset_size, int num_replicas, int rank,
                     SamplerOptions options = {});

  // Selects the epoch, counted from 0, whose order indices() uses. A program that never calls
  // this repeats the order of epoch 0 in every epoch.
  void set_epoch(std::uint64_t epoch) { epoch_ = epoch; }

  std::size_t num_samples() const { return num_samples_; }  // of this rank; equal on all ranks
  std::size_t total_size() const { return num_samples_ * num_replicas_; }  // of all ranks

  // This rank's samples in the current epoch, num_samples() of them.
  std::vector<std::size_t> indices() const;

  // For resuming: this rank's share of the samples that remain after the first `taken` samples
  // of the common order. A run that was saved in the middle of an epoch resumes this way, on
  // any number of ranks. After k steps of W ranks with batches of B, `taken` is k W B. If the
  // run resumes on W ranks, the result is indices() without its first k B entries. All ranks
  // get the same number of samples. Throws Error if `taken` exceeds the epoch's length.
  std::vector<std::size_t> indices_after(std::size_t taken) const;

 private:
  std::size_t dataset_size_, num_replicas_, rank_;
  SamplerOptions options_;
  std::size_t num_samples_;
  std::uint64_t epoch_ = 0;
};

// For evaluation: puts every sample on exactly one rank, so the ranks' counts differ by up to
// one. An accuracy over padded shards would count some samples twice.
// Throws Error unless 0 <= rank < num_replicas.
std::vector<std::size_t> exact_shard(std::size_t dataset_size, int num_replicas, int rank);

}  // namespace dist
