// Images and labels in MNIST's own file format, IDX.
//
// An IDX file is a header of big-endian 32-bit numbers followed by the raw bytes:
//
//   images: magic 0x00000803, count, rows, columns, then count * rows * columns bytes
//   labels: magic 0x00000801, count, then count bytes
//
// The format is described at the MNIST database's home page. Plain or compressed with gzip.
#pragma once

#include "04_distributed_sampler/dataset.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dist {

// A file's content, decompressed if it begins with gzip's magic. Throws Error naming the file.
std::vector<std::uint8_t> read_file(const std::string& path);

struct IdxImages {
  std::size_t count = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<std::uint8_t> pixels;  // count * rows * columns, row-major
};

// Parse the bytes of an IDX file; `name` stands in the error messages. Throw Error when the
// magic is wrong or the header promises more, or fewer, bytes than there are: a lying header
// never leads to an allocation.
IdxImages parse_idx_images(const std::vector<std::uint8_t>& bytes, const std::string& name);
std::vector<std::uint8_t> parse_idx_labels(const std::vector<std::uint8_t>& bytes,
                                           const std::string& name);

// The bytes of such files: the inverse of the two functions above.
std::vector<std::uint8_t> format_idx_images(const IdxImages& images);
std::vector<std::uint8_t> format_idx_labels(const std::vector<std::uint8_t>& labels);

// Images scaled to 0 .. 1, each one row of rows * columns features.
class IdxDataset : public Dataset {
 public:
  // Throws Error when there are not as many labels as images.
  IdxDataset(IdxImages images, std::vector<std::uint8_t> labels, const std::string& name);

  std::size_t size() const override { return labels_.size(); }
  std::size_t features() const override { return images_.rows * images_.columns; }
  std::size_t classes() const override { return classes_; }
  std::int32_t get(std::size_t index, std::span<float> row) const override;

 private:
  IdxImages images_;
  std::vector<std::uint8_t> labels_;
  std::size_t classes_ = 0;
};

}  // namespace dist
