// Images and labels in MNIST's own file format, IDX.
//
// An IDX file is a header of big-endian 32-bit numbers followed by the raw bytes:
//
//   images: magic 0x00000803, count, rows, columns, then count * rows * columns bytes
//   labels: magic 0x00000801, count, then count bytes
//
// The format is described at the MNIST database's home page. Where a file's
// bytes lie, mapped or loaded, is file_bytes' matter.
#pragma once

#include "04_distributed_sampler/dataset.hpp"
#include "04_distributed_sampler/datasets/file_bytes.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dist {

// The length that the header of an IDX file promises; 0 if it is not one, and no limit while
// there is not yet enough of it to tell.
std::uint64_t idx_length(std::span<const std::uint8_t> begin);

struct IdxImages {
  std::size_t count = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::span<const std::uint8_t> pixels;  // count * rows * columns, row-major
};

// Find the images or labels in the bytes of an IDX file; nothing is copied, and the result is a
// window on `bytes`. `name` stands in the error messages. Throw Error when the magic is wrong
// or the header promises more, or fewer, bytes than there are: a lying header never leads to an
// allocation, or to a read past the end.
IdxImages parse_idx_images(std::span<const std::uint8_t> bytes, const std::string& name);
std::span<const std::uint8_t> parse_idx_labels(std::span<const std::uint8_t> bytes,
                                               const std::string& name);

// The bytes of such files: the inverse of the two functions above.
std::vector<std::uint8_t> format_idx_images(const IdxImages& images);
std::vector<std::uint8_t> format_idx_labels(std::span<const std::uint8_t> labels);

// Images scaled to 0 .. 1, each one row of rows * columns features. Owns the two files. Opening
// one reads its header and the labels; the pixels of a mapped file are read when a sample is.
class IdxDataset : public Dataset {
 public:
  // Throws Error as above, and when there are not as many labels as images.
  IdxDataset(FileBytes images, FileBytes labels, const std::string& images_name,
             const std::string& labels_name);

  std::size_t size() const override { return labels_.size(); }
  std::size_t features() const override { return images_.rows * images_.columns; }
  std::size_t classes() const override { return classes_; }
  bool reads_file() const override { return images_file_.mapped(); }
  // Throws Error for a label that was not there when the file was opened: a model has no output
  // for it.
  std::int32_t get(std::size_t index, std::span<float> row) const override;

 private:
  FileBytes images_file_;
  FileBytes labels_file_;
  IdxImages images_;  // windows on the two
  std::span<const std::uint8_t> labels_;
  std::size_t classes_ = 0;
  std::string labels_name_;
};

}  // namespace dist
