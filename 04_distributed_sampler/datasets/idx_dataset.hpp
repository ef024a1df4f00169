// Images and labels in MNIST's own file format, IDX.
//
// An IDX file is a header of big-endian 32-bit numbers followed by the raw bytes:
//
//   images: magic 0x00000803, count, rows, columns, then count * rows * columns bytes
//   labels: magic 0x00000801, count, then count bytes
//
// The home page of the MNIST database describes the format. file_bytes maps or loads the bytes.
#pragma once

#include "04_distributed_sampler/dataset.hpp"
#include "04_distributed_sampler/datasets/file_bytes.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dist {

// The length that the header of an IDX file promises. Returns 0 if the file is not an IDX file,
// or the largest number if `begin` is too short to tell.
std::uint64_t idx_length(std::span<const std::uint8_t> begin);

struct IdxImages {
  std::size_t count = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::span<const std::uint8_t> pixels;  // count * rows * columns, row-major
};

// These two functions find the images or the labels in the bytes of an IDX file. They copy
// nothing; their results refer to `bytes`. They throw Error with `name` if the magic number is
// wrong or the header does not promise exactly bytes.size() bytes. A wrong header therefore
// never causes a large allocation or a read past the end.
IdxImages parse_idx_images(std::span<const std::uint8_t> bytes, const std::string& name);
std::span<const std::uint8_t> parse_idx_labels(std::span<const std::uint8_t> bytes,
                                               const std::string& name);

// Return the bytes of an IDX file. These functions are the inverses of the two above.
std::vector<std::uint8_t> format_idx_images(const IdxImages& images);
std::vector<std::uint8_t> format_idx_labels(std::span<const std::uint8_t> labels);

// Images scaled to 0 .. 1, each a row of rows * columns features. Owns the two files. The
// constructor reads the headers and labels; a mapped file's pixels are read sample by sample.
class IdxDataset : public Dataset {
 public:
  // Throws Error in the cases above, and if the numbers of labels and images differ.
  IdxDataset(FileBytes images, FileBytes labels, const std::string& images_name,
             const std::string& labels_name);

  std::size_t size() const override { return labels_.size(); }
  std::size_t features() const override { return images_.rows * images_.columns; }
  std::size_t classes() const override { return classes_; }
  // Throws Error for a label that exceeds all those found when the file was opened, because a
  // model has no output for such a label.
  std::int32_t get(std::size_t index, std::span<float> row) const override;

 private:
  FileBytes images_file_;
  FileBytes labels_file_;
  IdxImages images_;                      // refers to images_file_
  std::span<const std::uint8_t> labels_;  // refers to labels_file_
  std::size_t classes_ = 0;
  std::string labels_name_;
};

}  // namespace dist
