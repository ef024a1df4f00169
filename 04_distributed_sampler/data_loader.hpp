// What this file adds: samples become batches on the device (torch.utils.data.DataLoader).
// Builds on: dataset; the sampler decides which samples, this file only collects them.
#pragma once

#include "04_distributed_sampler/dataset.hpp"
#include "common/buffer.hpp"
#include "common/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace dist {

// Lies in the loader's own memory: valid until the loader makes the next batch.
struct Batch {
  Tensor inputs;                          // (rows, features)
  std::span<const std::int32_t> targets;  // (rows), in the device's memory
  std::size_t rows() const { return targets.size(); }
};

class DataLoader {
 public:
  // Batches of `batch_size` samples on the stream's device; the last one may be smaller, or is
  // left out with `drop_last` (a different switch from the sampler's). `dataset` and `stream`
  // must outlive the loader. Throws Error for a batch size of 0.
  DataLoader(const Dataset& dataset, std::size_t batch_size, bool drop_last,
             const Stream& stream);

  // How many batches `samples` samples make.
  std::size_t batches(std::size_t samples) const;

  // for (const Batch& batch : loader.over(sampler.indices())) ...
  class Range;
  Range over(std::vector<std::size_t> indices);

 private:
  const Batch& collate(std::span<const std::size_t> indices);

  const Dataset& dataset_;
  const Stream& stream_;
  std::size_t batch_size_;
  bool drop_last_;
  Buffer<float> host_inputs_;  // pinned: the GPU fetches from it
  Buffer<std::int32_t> host_targets_;
  Tensor inputs_;
  Buffer<std::int32_t> targets_;
  Batch batch_;
};

class DataLoader::Range {
 public:
  class Iterator {
   public:
    Iterator(Range& range, std::size_t position) : range_(range), position_(position) {}
    // Makes the batch: once per step.
    const Batch& operator*() const { return range_.batch(position_); }
    Iterator& operator++() {
      ++position_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return position_ == other.position_; }

   private:
    Range& range_;
    std::size_t position_;
  };

  Range(DataLoader& loader, std::vector<std::size_t> indices)
      : loader_(loader), indices_(std::move(indices)) {}
  Iterator begin() { return {*this, 0}; }
  Iterator end() { return {*this, loader_.batches(indices_.size())}; }

 private:
  const Batch& batch(std::size_t position);

  DataLoader& loader_;
  std::vector<std::size_t> indices_;
};

inline DataLoader::Range DataLoader::over(std::vector<std::size_t> indices) {
  return {*this, std::move(indices)};
}

}  // namespace dist
