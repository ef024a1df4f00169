#include "04_distributed_sampler/data_loader.hpp"

#include "common/check.hpp"

#include <algorithm>

namespace dist {

DataLoader::DataLoader(const Dataset& dataset, std::size_t batch_size, bool drop_last,
                       const Stream& stream)
    : dataset_(dataset),
      stream_(stream),
      batch_size_(batch_size),
      drop_last_(drop_last),
      inputs_({batch_size, dataset.features()}, stream.device()),
      targets_(batch_size, stream.device()) {
  if (batch_size == 0) throw Error("DataLoader: a batch size of 0");
  if (!stream.device().is_cpu()) {
    host_inputs_ = {batch_size * dataset.features(), stream.device(), Memory::pinned};
    host_targets_ = {batch_size, stream.device(), Memory::pinned};
  }
}

std::size_t DataLoader::batches(std::size_t samples) const {
  return (samples + (drop_last_ ? 0 : batch_size_ - 1)) / batch_size_;
}

const Batch& DataLoader::collate(std::span<const std::size_t> indices) {
  const bool on_gpu = !stream_.device().is_cpu();
  const std::size_t features = dataset_.features();
  float* const rows = on_gpu ? host_inputs_.data() : inputs_.data();
  std::int32_t* const labels = on_gpu ? host_targets_.data() : targets_.data();
  // The previous batch may still be on its way from this very memory to the GPU.
  stream_.synchronize();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    labels[i] = dataset_.get(indices[i], std::span(rows + i * features, features));
  }
  batch_ = {inputs_.rows(indices.size()), std::span(targets_.data(), indices.size())};
  if (on_gpu) {
    copy_bytes(stream_, inputs_.data(), rows, batch_.inputs.size_bytes());
    copy_bytes(stream_, targets_.data(), labels, batch_.targets.size_bytes());
  }
  return batch_;
}

const Batch& DataLoader::Range::batch(std::size_t position) {
  const std::size_t begin = position * loader_.batch_size_;
  const std::size_t rows = std::min(loader_.batch_size_, indices_.size() - begin);
  return loader_.collate(std::span(indices_).subspan(begin, rows));
}

}  // namespace dist
