#include "04_distributed_sampler/data_loader.hpp"

namespace dist {

DataLoader::DataLoader(const Dataset& dataset, std::size_t batch_size, bool drop_last,
                       const Stream& stream, std::size_t parts)
    : dataset_(dataset),
      stream_(stream),
      plan_(batch_size, drop_last, parts),
      host_(batch_size, dataset.features(), stream.device()),
      delivery_(batch_size, dataset.features(), stream) {}

DataLoader::Range DataLoader::over(std::vector<std::size_t> indices, std::size_t first_batch) {
  plan_.check_start(first_batch, indices.size());
  return {*this, std::move(indices), first_batch};
}

const Batch& DataLoader::collate(std::span<const std::size_t> indices) {
  // The previous batch may still be on its way from this very memory to the GPU.
  stream_.synchronize();
  host_.collect(dataset_, indices);
  batch_ = delivery_.deliver(host_.batch());
  return batch_;
}

}  // namespace dist
