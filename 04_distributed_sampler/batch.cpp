#include "04_distributed_sampler/batch.hpp"

#include "common/check.hpp"

#include <algorithm>

namespace dist {

BatchPlan::BatchPlan(std::size_t batch_size, bool drop, std::size_t batches_per_step)
    : size(batch_size), drop_last(drop), accumulate(batches_per_step) {
  if (batch_size == 0) throw Error("DataLoader: the batch size is 0");
  if (batches_per_step == 0) throw Error("DataLoader: a step has no batches");
}

std::size_t BatchPlan::batches(std::size_t samples) const {
  return drop_last ? samples / size : (samples + size - 1) / size;
}

std::size_t BatchPlan::steps(std::size_t samples) const {
  return (batches(samples) + accumulate - 1) / accumulate;
}

std::vector<BatchSamples> BatchPlan::divide(std::span<const std::size_t> indices) const {
  const std::size_t count = batches(indices.size());
  std::vector<BatchSamples> all;
  for (std::size_t b = 0; b < count; ++b) {
    const std::size_t part = b % accumulate;
    const std::size_t parts = std::min(accumulate, count - (b - part));
    const auto rest = indices.subspan(b * size);
    const auto mine = rest.first(std::min(size, rest.size()));
    all.push_back(
        {.indices = {mine.begin(), mine.end()},
         .place = {
             .part = part, .parts = parts, .accumulate = parts, .ends_epoch = b + 1 == count}});
  }
  return all;
}

}  // namespace dist
