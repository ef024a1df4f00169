#include "04_distributed_sampler/data_loader.hpp"

#include "common/check.hpp"

#include <algorithm>
#include <span>

namespace dist {

DataLoader::DataLoader(const Dataset& dataset, const BatchPlan& plan, const Stream& stream)
    : dataset_(dataset),
      stream_(stream),
      plan_(plan),
      targets_(dataset.targets()),
      input_bytes_(bytes_of(numel({plan.size, dataset.features()}), sizeof(float))),
      bytes_(bytes_of(numel({plan.size, dataset.features() + targets_}), sizeof(std::int32_t))),
      memory_(allocate(bytes_, stream.device())),
      inputs_(memory_, static_cast<float*>(memory_.get()), {plan.size, dataset.features()},
              stream.device()),
      copies_(stream.device()) {
  if (stream.device().is_cpu()) return;
  const auto add = [&](std::vector<BatchMemory>& all, std::size_t count, Memory memory) {
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back({allocate(bytes_, stream.device(), memory)});
    }
  };
  constexpr std::size_t kMost = 8;
  constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  add(host_, 2 * std::clamp<std::size_t>(kMostBytes / bytes_, 1, kMost), Memory::pinned);
  add(arrivals_, 2, Memory::device);
}

DataLoader::Range DataLoader::over(const std::vector<std::size_t>& indices) & {
  return {*this, plan_.divide(indices)};
}

DataLoader::Range DataLoader::over(std::vector<BatchSamples> batches) & {
  for (const BatchSamples& batch : batches) {
    if (batch.indices.size() > plan_.size) {
      throw Error("DataLoader: a batch is larger than the batch size");
    }
  }
  return {*this, std::move(batches)};
}

const Batch& DataLoader::collate(const BatchSamples& samples) {
  const std::size_t rows = samples.indices.size(), features = dataset_.features();
  const auto targets_in = [&](void* memory) {
    return reinterpret_cast<std::int32_t*>(static_cast<char*>(memory) + input_bytes_);
  };
  BatchMemory* const on_host = stream_.device().is_cpu() ? nullptr : &next_on_host();
  void* const memory = on_host == nullptr ? memory_.get() : on_host->memory.get();
  auto* const inputs = static_cast<float*>(memory);
  std::int32_t* const targets = targets_in(memory);
  // [5] From samples to a batch.
  for (std::size_t i = 0; i < rows; ++i) {
    dataset_.get(samples.indices[i], std::span(inputs + i * features, features),
                 std::span(targets + i * targets_, targets_));
  }
  if (on_host != nullptr) send(*on_host);
  batch_ = {.inputs = inputs_.rows(rows),
            .targets = {targets_in(memory_.get()), rows * targets_},
            .place = samples.place};
  return batch_;
}

DataLoader::BatchMemory& DataLoader::next_on_host() {
  // This memory held an earlier batch, which must have been copied before it is overwritten.
  // Even a wait that is already over takes microseconds, so one serves half of the batches.
  const std::size_t half = host_.size() / 2;
  if (next_ % half == 0) host_[next_ + half - 1].free.synchronize();
  BatchMemory& next = host_[next_];
  next_ = (next_ + 1) % host_.size();
  return next;
}

void DataLoader::send(BatchMemory& collected) {
  // From the host to the GPU, while kernels of earlier steps run.
  BatchMemory& arrival = arrivals_[next_arrival_];
  next_arrival_ = 1 - next_arrival_;
  copies_.wait(arrival.free);
  copy_bytes(copies_, arrival.memory.get(), collected.memory.get(), bytes_);
  collected.free = copies_.record_event();
  // Within the GPU, which is fast. The stream runs its work in order, so the kernels that read
  // the previous batch have finished.
  stream_.wait(collected.free);
  copy_bytes(stream_, memory_.get(), arrival.memory.get(), bytes_);
  arrival.free = stream_.record_event();
}

}  // namespace dist
