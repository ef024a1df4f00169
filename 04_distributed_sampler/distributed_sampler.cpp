// Which sample goes to which rank. Look at: the picture in indices(), the absence of messages.
#include "04_distributed_sampler/distributed_sampler.hpp"

#include "common/check.hpp"
#include "common/random.hpp"

#include <algorithm>
#include <numeric>
#include <string>

namespace dist {

static void check_rank(int num_replicas, int rank) {
  if (rank < 0 || rank >= num_replicas) {
    throw Error("sampler: there is no rank " + std::to_string(rank) + " in a world of " +
                std::to_string(num_replicas));
  }
}

DistributedSampler::DistributedSampler(std::size_t dataset_size, int num_replicas, int rank,
                                       SamplerOptions options)
    : dataset_size_(dataset_size),
      num_replicas_(static_cast<std::size_t>(num_replicas)),
      rank_(static_cast<std::size_t>(rank)),
      options_(options) {
  check_rank(num_replicas, rank);
  // All ranks get equal counts: a rank with one batch fewer would leave the others waiting in
  // the all-reduce of their extra batch. Rounding down drops the remainder, rounding up pads.
  const std::size_t rounded_up = options.drop_last ? 0 : num_replicas_ - 1;
  num_samples_ = (dataset_size + rounded_up) / num_replicas_;
}

std::vector<std::size_t> DistributedSampler::indices() const {
  // [1] One order for all ranks: the same seed and epoch give it to each without a message.
  std::vector<std::size_t> order(dataset_size_);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (options_.shuffle) {
    Generator generator(options_.seed + epoch_);
    order = randperm(dataset_size_, generator);
  }
  // [2] The ranks take turns. 10 samples on 4 ranks are padded with the order's first entries:
  //
  //   order    4 1 7 5 | 3 9 0 8 | 6 2 (4 1)        rank 0: 4 3 6     rank 2: 7 0 4
  //   rank     0 1 2 3   0 1 2 3   0 1  2 3         rank 1: 1 9 2     rank 3: 5 8 1
  //
  // Because the ranks take turns, not whole blocks, the k-th batches of all ranks together are
  // block k of the order: what one process would take with a batch as large as them all.
  std::vector<std::size_t> mine;
  for (std::size_t place = rank_; place < total_size(); place += num_replicas_) {
    mine.push_back(order[place % dataset_size_]);
  }
  return mine;
}

std::vector<std::size_t> DistributedSampler::indices_after(std::size_t taken) const {
  // `taken` may include padding, so it may exceed the number of samples.
  const std::size_t most = std::max(dataset_size_, total_size());
  if (taken > most) {
    throw Error("sampler: " + std::to_string(taken) + " samples taken, but the epoch has " +
                std::to_string(most));
  }
  // A world of one rank takes the whole order.
  DistributedSampler everything(dataset_size_, 1, 0, options_);
  everything.set_epoch(epoch_);
  const std::vector<std::size_t> order = everything.indices();
  // The turns continue where the earlier run stopped. The ranks share what is left.
  const std::size_t left = dataset_size_ - std::min(taken, dataset_size_);
  const std::size_t share =
      DistributedSampler(left, static_cast<int>(num_replicas_), 0, options_).num_samples();
  std::vector<std::size_t> mine;
  for (std::size_t k = 0; k < share; ++k) {
    mine.push_back(order[(taken + rank_ + k * num_replicas_) % dataset_size_]);
  }
  return mine;
}

std::vector<std::size_t> exact_shard(std::size_t dataset_size, int num_replicas, int rank) {
  check_rank(num_replicas, rank);
  std::vector<std::size_t> mine;
  for (auto i = static_cast<std::size_t>(rank); i < dataset_size;
       i += static_cast<std::size_t>(num_replicas)) {
    mine.push_back(i);
  }
  return mine;
}

}  // namespace dist
