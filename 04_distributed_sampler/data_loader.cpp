#include "04_distributed_sampler/data_loader.hpp"

#include <chrono>

namespace dist {

DataLoader::DataLoader(const Dataset& dataset, const BatchPlan& plan, const Stream& stream)
    : dataset_(dataset),
      stream_(stream),
      plan_(plan),
      delivery_(plan.size, dataset.features(), stream) {
  copied_.resize(stream.device().is_cpu() ? 1 : 2);
  for (std::size_t i = 0; i < copied_.size(); ++i) {
    host_.emplace_back(plan.size, dataset.features(), stream.device());
  }
}

DataLoader::Range DataLoader::over(std::vector<std::size_t> indices, std::size_t first_batch) {
  plan_.check_start(first_batch, indices.size());
  return {*this, std::move(indices), first_batch};
}

const Batch& DataLoader::collate(std::span<const std::size_t> indices, Batch::Place place) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  // 5. From samples to a batch. For a GPU, this memory held the batch before the previous one.
  // Wait until that batch has been copied, so that it is not overwritten too early; there is no
  // need to wait for the current step.
  copied_[next_].synchronize();
  host_[next_].collect(dataset_, indices);
  batch_ = delivery_.deliver(host_[next_].batch());
  if (!stream_.device().is_cpu()) copied_[next_] = stream_.record_event();
  next_ = (next_ + 1) % host_.size();
  batch_.place = place;
  batch_.waited_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  return batch_;
}

}  // namespace dist
