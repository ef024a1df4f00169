#include "04_distributed_sampler/batch.hpp"

#include "common/check.hpp"

#include <algorithm>
#include <memory>

namespace dist {
namespace {

Memory memory_for(Device destination) {
  return destination.is_cpu() ? Memory::device : Memory::pinned;
}

// Allocates a tensor that the host can write, even if its numbers will be copied to a GPU.
Tensor host_tensor(std::size_t rows, std::size_t features, Device destination) {
  std::shared_ptr<void> owner = allocate(bytes_of(bytes_of(rows, features), sizeof(float)),
                                         destination, memory_for(destination));
  auto* const data = static_cast<float*>(owner.get());
  return {std::move(owner), data, {rows, features}, Device{}};
}

}  // namespace

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

HostBatch::HostBatch(std::size_t most_rows, std::size_t features, Device destination)
    : inputs_(host_tensor(most_rows, features, destination)),
      targets_(most_rows, destination, memory_for(destination)) {}

void HostBatch::collect(const Dataset& dataset, std::span<const std::size_t> indices) {
  const std::size_t features = inputs_.dim(1);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::span row(inputs_.data() + i * features, features);
    targets_.data()[i] = dataset.get(indices[i], row);
  }
  rows_ = indices.size();
}

Batch HostBatch::batch() const {
  return {.inputs = inputs_.rows(rows_), .targets = std::span(targets_.data(), rows_)};
}

BatchDelivery::BatchDelivery(std::size_t most_rows, std::size_t features, const Stream& stream)
    : stream_(stream) {
  if (stream.device().is_cpu()) return;
  copies_.emplace(stream.device());
  const auto slot = [&]() -> Slot {
    return {.inputs = Tensor({most_rows, features}, stream.device()),
            .targets = {most_rows, stream.device()},
            .taken = {}};
  };
  for (int i = 0; i < 2; ++i) arrivals_.push_back(slot());
  batch_ = slot();
}

Batch BatchDelivery::deliver(const Batch& collected, Event& copied) {
  if (stream_.device().is_cpu()) return collected;
  const std::size_t rows = collected.rows();
  const auto move = [&](const Stream& stream, const Slot& to, const float* inputs,
                        const std::int32_t* targets) {
    copy_bytes(stream, to.inputs.data(), inputs, to.inputs.rows(rows).size_bytes());
    copy_bytes(stream, to.targets.data(), targets, rows * sizeof(std::int32_t));
  };
  // From the host to the GPU, while kernels of earlier steps run.
  Slot& slot = arrivals_[next_];
  next_ = 1 - next_;
  copies_->wait(slot.taken);
  move(*copies_, slot, collected.inputs.data(), collected.targets.data());
  copied = copies_->record_event();
  // Within the GPU, which is fast. The stream runs its work in order, so the kernels that read
  // the previous batch have finished.
  stream_.wait(copied);
  move(stream_, batch_, slot.inputs.data(), slot.targets.data());
  slot.taken = stream_.record_event();
  return {.inputs = batch_.inputs.rows(rows), .targets = {batch_.targets.data(), rows}};
}

}  // namespace dist
