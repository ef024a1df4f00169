#include "04_distributed_sampler/data_loader.hpp"

#include "common/check.hpp"

#include <algorithm>
#include <chrono>

namespace dist {

DataLoader::DataLoader(const Dataset& dataset, const BatchPlan& plan, const Stream& stream)
    : dataset_(dataset),
      stream_(stream),
      plan_(plan),
      delivery_(plan.size, dataset.features(), stream) {
  const bool cpu = stream.device().is_cpu();
  if (!cpu) {
    constexpr std::size_t kMost = 8;
    constexpr std::size_t kMostBytes = std::size_t{16} << 20;
    const std::size_t bytes = plan.size * (dataset.features() + 1) * sizeof(float);
    half_ = std::clamp<std::size_t>(kMostBytes / bytes, 1, kMost);
  }
  copied_.resize(cpu ? 1 : 2 * half_);
  for (std::size_t i = 0; i < copied_.size(); ++i) {
    host_.emplace_back(plan.size, dataset.features(), stream.device());
  }
}

DataLoader::Range DataLoader::over(const std::vector<std::size_t>& indices) {
  return {*this, plan_.divide(indices)};
}

DataLoader::Range DataLoader::over(std::vector<BatchSamples> batches) {
  for (const BatchSamples& batch : batches) {
    if (batch.indices.size() > plan_.size) {
      throw Error("DataLoader: a batch is larger than the batch size");
    }
  }
  return {*this, std::move(batches)};
}

const Batch& DataLoader::collate(const BatchSamples& samples) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  // 5. From samples to a batch. For a GPU, this memory held an earlier batch, which must have
  // been copied before it is overwritten. Even a wait that is already over takes microseconds,
  // so there is one for half of the batches at a time.
  if (next_ % half_ == 0) copied_[next_ + half_ - 1].synchronize();
  host_[next_].collect(dataset_, samples.indices);
  batch_ = delivery_.deliver(host_[next_].batch(), copied_[next_]);
  next_ = (next_ + 1) % host_.size();
  batch_.place = samples.place;
  batch_.waited_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  return batch_;
}

}  // namespace dist
