#include "04_distributed_sampler/batch.hpp"

#include "common/check.hpp"

#include <algorithm>
#include <memory>
#include <string>

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

BatchPlan::BatchPlan(std::size_t batch_size, bool drop, std::size_t parts_of_step,
                     std::size_t batches_of_part)
    : size(batch_size), drop_last(drop), parts(parts_of_step), accumulate(batches_of_part) {
  if (batch_size == 0) throw Error("DataLoader: the batch size is 0");
  if (parts_of_step == 0 || batches_of_part == 0) {
    throw Error("DataLoader: a step has no batches");
  }
}

std::size_t BatchPlan::batches(std::size_t samples) const {
  if (samples % parts != 0) {
    throw Error("DataLoader: cannot divide " + std::to_string(samples) + " samples into " +
                std::to_string(parts) + " equal parts");
  }
  const std::size_t of_part = samples / parts;
  return parts * (of_part / size + (!drop_last && of_part % size != 0 ? 1 : 0));
}

std::span<const std::size_t> BatchPlan::samples_of(std::span<const std::size_t> indices,
                                                   std::size_t position) const {
  // The earlier steps took `size` rows from each part. If this step is the last, it takes the
  // remaining rows, which may be fewer.
  const std::size_t taken = position / parts * size;  // rows of each part
  const std::size_t rows = std::min(size, indices.size() / parts - taken);
  return indices.subspan(taken * parts + position % parts * rows, rows);
}

Batch::Place BatchPlan::place_of(std::size_t position, std::size_t batches) const {
  const std::size_t per_step = parts * accumulate;
  const std::size_t step_begin = position / per_step * per_step;
  const std::size_t in_step = std::min(per_step, batches - step_begin);
  return {.part = position - step_begin,
          .parts = in_step,
          .accumulate = in_step / parts,
          .ends_epoch = position + 1 == batches};
}

std::size_t BatchPlan::steps(std::size_t samples) const {
  const std::size_t per_step = parts * accumulate;
  return (batches(samples) + per_step - 1) / per_step;
}

void BatchPlan::check_start(std::size_t first_batch, std::size_t samples) const {
  if (first_batch > batches(samples)) {
    throw Error("DataLoader: cannot start at batch " + std::to_string(first_batch) +
                " of an epoch with " + std::to_string(batches(samples)) + " batches");
  }
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
