// Two small data sets, modelled on PyTorch's TensorDataset and Subset.
#pragma once

#include "04_distributed_sampler/dataset.hpp"
#include "common/random.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace dist {

// Numbers in memory. `inputs` is a (samples, features) matrix and `labels` a (samples, targets)
// matrix, row-major.
class TensorDataset : public Dataset {
 public:
  TensorDataset(std::vector<float> inputs, std::vector<std::int32_t> labels,
                std::size_t features, std::size_t classes, std::size_t targets = 1)
      : Dataset(labels.size() / targets, features, classes, targets),
        inputs_(std::move(inputs)),
        labels_(std::move(labels)) {}

  using Dataset::get;
  void get(std::size_t index, std::span<float> row,
           std::span<std::int32_t> targets) const override {
    std::copy_n(&inputs_[index * row.size()], row.size(), row.begin());
    std::copy_n(&labels_[index * targets.size()], targets.size(), targets.begin());
  }

 private:
  std::vector<float> inputs_;
  std::vector<std::int32_t> labels_;
};

// `size` samples of noise with random labels, drawn from `generator` as in these lines of
// PyTorch:
//   X = torch.randn(size, features);  y = torch.randint(0, classes, (size,))
inline TensorDataset synthetic_dataset(std::size_t size, std::size_t features,
                                       std::size_t classes, Generator& generator) {
  std::vector<float> inputs(size * features);
  fill_normal(inputs, generator);
  std::vector<std::int32_t> labels;
  for (const std::int64_t label :
       randint(0, static_cast<std::int64_t>(classes), size, generator)) {
    labels.push_back(static_cast<std::int32_t>(label));
  }
  return {std::move(inputs), std::move(labels), features, classes};
}

// Samples begin .. begin + size - 1 of `whole`, which must outlive this object.
class Subset : public Dataset {
 public:
  Subset(const Dataset& whole, std::size_t begin, std::size_t size)
      : Dataset(size, whole.features(), whole.classes(), whole.targets()),
        whole_(whole),
        begin_(begin) {}

  using Dataset::get;
  void get(std::size_t index, std::span<float> row,
           std::span<std::int32_t> targets) const override {
    whole_.get(begin_ + index, row, targets);
  }

 private:
  const Dataset& whole_;
  std::size_t begin_;
};

}  // namespace dist
