// Images and labels in MNIST's own file format, IDX, plain or compressed with gzip.
//
// An IDX file is a header of big-endian 32-bit numbers followed by the raw bytes:
//
//   images: magic 0x00000803, count, rows, columns, then count * rows * columns bytes
//   labels: magic 0x00000801, count, then count bytes
//       or: magic 0x00000c01, count, then count big-endian 32-bit integers
//       or: magic 0x00000c02, count, columns, then count rows of such integers, of which the
//           first is the label (QMNIST)
//
// The home page of the MNIST database describes the format.
#pragma once

#include "04_distributed_sampler/dataset.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dist {

struct IdxPair {
  std::string images, labels;  // paths
};

// Finds train-images-idx3-ubyte and train-labels-idx1-ubyte, and the same two of t10k or test,
// or else one pair of any name, in `folder` or the only folder up to two levels below that has
// such files. They may be compressed (.gz), have a dot before idx (7-Zip), a folder each
// (Kaggle), a name before train (EMNIST), and labels called idx2-int (QMNIST). Throws Error
// naming them if one of a pair is missing, or there are several data sets.
std::vector<IdxPair> find_idx_pairs(const std::string& folder);

struct IdxFile {
  std::vector<std::size_t> sizes;   // of images: count, rows, columns; of labels: count
  std::vector<std::uint8_t> bytes;  // as many as the product of the sizes
};

// Reads a file with `dimensions` sizes: 3 for images, 1 for labels. Throws an Error that names
// the file if it cannot be read, is of a different kind, is not exactly as long as its header
// promises, or does not fit into memory. Takes little more memory than the bytes that are in
// the file, and no more than the header promises, because a megabyte of gzip can hold a
// gigabyte of zeros.
IdxFile read_idx(const std::string& path, std::size_t dimensions);

// Images scaled to 0 .. 1, each a row of `features` pixels, in memory.
class IdxDataset : public Dataset {
 public:
  // labels.size() images, of which there is at least one.
  IdxDataset(std::size_t features, std::vector<std::uint8_t> pixels,
             std::vector<std::uint8_t> labels);
  using Dataset::get;
  void get(std::size_t index, std::span<float> row,
           std::span<std::int32_t> targets) const override;

 private:
  std::vector<std::uint8_t> pixels_, labels_;
};

// Throws Error as read_idx does, and if the numbers of images and labels differ.
IdxDataset read_idx_dataset(const std::string& images_path, const std::string& labels_path);

}  // namespace dist
