// A data set that records which samples are read, and throws for one chosen sample.
#pragma once

#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "tests/support/lesson04.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dist::test {

class Recorder : public Dataset {
 public:
  explicit Recorder(std::size_t size, std::size_t broken = SIZE_MAX)
      : data_(numbered(size, 3)), broken_(broken) {}

  std::size_t size() const override { return data_.size(); }
  std::size_t features() const override { return data_.features(); }
  std::size_t classes() const override { return data_.classes(); }
  std::int32_t get(std::size_t index, std::span<float> row) const override {
    if (index == broken_) throw Error("sample " + std::to_string(index) + " is broken");
    reads_.push_back(index);
    return data_.get(index, row);
  }
  const Indices& reads() const { return reads_; }

 private:
  TensorDataset data_;
  std::size_t broken_;
  mutable Indices reads_;
};

}  // namespace dist::test
