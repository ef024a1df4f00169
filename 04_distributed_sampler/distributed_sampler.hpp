// What this file adds: which samples are mine? Every rank answers alone, without a message, and
// together the answers cover the data set (torch.utils.data.distributed.DistributedSampler).
// Builds on: PyTorch's randperm (02_broadcast/random.hpp).
// Look at: why all ranks must use the same seed, and what set_epoch changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dist {

struct SamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;  // the same on all ranks: not seed + rank, and not the model's seed
  bool drop_last = false;  // what does not divide among the ranks is dropped, not padded
};

// Gives PyTorch's own indices for the same arguments. Of one rank; needs no other.
class DistributedSampler {
 public:
  // Throws Error unless 0 <= rank < num_replicas.
  DistributedSampler(std::size_t dataset_size, int num_replicas, int rank,
                     SamplerOptions options = {});

  // The epoch, from 0, whose order indices() gives. A program that never calls it sees the
  // order of epoch 0 in every epoch.
  void set_epoch(std::uint64_t epoch) { epoch_ = epoch; }

  std::size_t num_samples() const { return num_samples_; }  // of this rank; equal on all
  std::size_t total_size() const { return num_samples_ * num_replicas_; }  // of all ranks

  // This rank's samples in the current epoch, num_samples() of them.
  std::vector<std::size_t> indices() const { return indices_after(0); }

  // What is left of the epoch for this rank when the first `taken` samples of the common order
  // are done, by however many ranks: how a run goes on that was saved in mid-epoch. After k
  // steps of W ranks with batches of B, `taken` is k W B. On W ranks again this is indices()
  // without its first k B; on another number of ranks the rest is shared out among those.
  // As many on every rank. Throws Error when `taken` is more than there is.
  std::vector<std::size_t> indices_after(std::size_t taken) const;

 private:
  std::size_t share_of(std::size_t samples) const;  // of one rank, when all share `samples`

  std::size_t dataset_size_;
  std::size_t num_replicas_;
  std::size_t rank_;
  SamplerOptions options_;
  std::size_t num_samples_;
  std::uint64_t epoch_ = 0;
};

// For evaluation: every sample on exactly one rank, none twice, none left out; so the counts
// differ by up to one between ranks. An accuracy over padded shards would count some samples
// twice.
// Throws Error as above.
std::vector<std::size_t> exact_shard(std::size_t dataset_size, int num_replicas, int rank);

}  // namespace dist
