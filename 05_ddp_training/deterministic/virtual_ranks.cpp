#include "05_ddp_training/deterministic/virtual_ranks.hpp"

#include "common/check.hpp"

#include <fmt/core.h>

#include <bit>
#include <utility>

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
                               const BatchPlan& plan, SamplerOptions options)
    : plan_(plan) {
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

std::vector<BatchSamples> VirtualSampler::indices_after(std::size_t taken) const {
  // Equally many for each rank, and the batches with the same number have the same size.
  std::vector<std::vector<BatchSamples>> of_rank;
  for (const DistributedSampler& sampler : samplers_) {
    of_rank.push_back(plan_.divide(sampler.indices_after(taken)));
  }
  const std::size_t played = of_rank.size();
  std::vector<BatchSamples> in_turn;
  for (std::size_t b = 0; b < of_rank[0].size(); ++b) {
    for (std::size_t r = 0; r < played; ++r) {
      BatchSamples& batch = in_turn.emplace_back(std::move(of_rank[r][b]));
      batch.place.part = batch.place.part * played + r;
      batch.place.parts *= played;
      batch.place.ends_epoch = batch.place.ends_epoch && r + 1 == played;
    }
  }
  return in_turn;
}

}  // namespace dist
