// Shared by the tests of lesson 4: a data set whose numbers show their own positions, and
// temporary files of given bytes.
#pragma once

#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/idx_files.hpp"
#include "tests/support/mpi_test.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
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

// A file that belongs to this rank and process alone, and is removed with the object.
struct TemporaryFile {
  std::string path;
  explicit TemporaryFile(const Bytes& bytes = {}) {
    static int number = 0;
    path = (std::filesystem::temp_directory_path() /
            ("lesson04_" + std::to_string(world().rank()) + "_" + std::to_string(::getpid()) +
             "_" + std::to_string(number++)))
               .string();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
};

}  // namespace dist::test
