// Shared by the tests of lesson 4: a data set whose numbers show their own positions.
#pragma once

#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "tests/support/mpi_test.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dist::test {

using Indices = std::vector<std::size_t>;

// Feature f of sample i is 100 i + f, and the label of sample i is 3 i modulo 7.
inline TensorDataset numbered(std::size_t size, std::size_t features) {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t f = 0; f < features; ++f)
      inputs.push_back(static_cast<float>(100 * i + f));
    labels.push_back(static_cast<std::int32_t>(i * 3 % 7));
  }
  return {inputs, labels, features, 7};
}

}  // namespace dist::test
