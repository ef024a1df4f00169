// A data set that records which samples are read, and throws for one chosen sample.
#pragma once

#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "tests/support/lesson04.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dist::test {

class Recorder : public TensorDataset {
 public:
  explicit Recorder(std::size_t size, std::size_t broken = SIZE_MAX)
      : TensorDataset(numbered(size, 3)), broken_(broken) {}

  std::int32_t get(std::size_t index, std::span<float> row) const override {
    if (index == broken_) throw Error("sample " + std::to_string(index) + " is broken");
    reads_.push_back(index);
    return TensorDataset::get(index, row);
  }
  const Indices& reads() const { return reads_; }

 private:
  std::size_t broken_;
  mutable Indices reads_;
};

}  // namespace dist::test
