#include "05_ddp_training/deterministic/virtual_ranks.hpp"

#include "common/check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

namespace dist {

VirtualRanks::VirtualRanks(int count, int processes, int process) : count_(count) {
  const int mine = processes > 0 ? count / processes : 0;
  if (mine * processes != count || !std::has_single_bit(static_cast<unsigned>(mine)) ||
      process < 0 || process >= processes) {
    throw Error(
        fmt::format("process {} of {} cannot simulate an equal share of {} virtual ranks",
                    process, processes, count));
  }
  // Double the list repeatedly by appending a copy to which `distance` is added.
  //
  //   0  ->  0 4  ->  0 4 2 6  ->  0 4 2 6 1 5 3 7
  local_.push_back(process);
  for (int distance = count / 2; distance >= processes; distance /= 2) {
    const std::size_t known = local_.size();
    for (std::size_t i = 0; i < known; ++i) local_.push_back(local_[i] + distance);
  }
}

VirtualSampler::VirtualSampler(std::size_t dataset_size, const VirtualRanks& ranks,
                               std::size_t batch_size, SamplerOptions options)
    : batch_size_(batch_size) {
  if (batch_size == 0) throw Error("sampler: the batch size is 0");
  for (const int rank : ranks.local()) {
    samplers_.emplace_back(dataset_size, ranks.count(), rank, options);
  }
}

void VirtualSampler::set_epoch(std::uint64_t epoch) {
  for (DistributedSampler& sampler : samplers_) sampler.set_epoch(epoch);
}

std::size_t VirtualSampler::num_samples() const {
  return samplers_.size() * samplers_[0].num_samples();
}

std::size_t VirtualSampler::total_size() const {
  return samplers_[0].total_size();
}

std::vector<std::size_t> VirtualSampler::indices_after(std::size_t taken) const {
  std::vector<std::vector<std::size_t>> of_rank;
  for (const DistributedSampler& sampler : samplers_) {
    of_rank.push_back(sampler.indices_after(taken));
  }
  if (of_rank.size() == 1) return of_rank[0];
  // All lists have the same length, so the batches of the last step are equal in size too.
  std::vector<std::size_t> in_step_order;
  const std::size_t length = of_rank[0].size();
  in_step_order.reserve(of_rank.size() * length);
  for (std::size_t begin = 0; begin < length; begin += batch_size_) {
    const std::size_t end = std::min(length, begin + batch_size_);
    for (const std::vector<std::size_t>& list : of_rank) {
      in_step_order.insert(in_step_order.end(),
                           list.begin() + static_cast<std::ptrdiff_t>(begin),
                           list.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }
  return in_step_order;
}

}  // namespace dist
