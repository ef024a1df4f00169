// IDX: a file is accepted if and only if it is as long as its header says.
#include "04_distributed_sampler/datasets/idx_dataset.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <vector>

using namespace dist;

namespace {

std::uint64_t big_endian(View bytes, std::size_t at) {
  return bytes[at] * 0x1000000ULL + bytes[at + 1] * 0x10000U + bytes[at + 2] * 256U +
         bytes[at + 3];
}

// Whether `bytes` is a complete file with this magic number and this many dimensions.
bool is_whole(View bytes, std::uint32_t magic, std::size_t numbers) {
  const std::size_t header = 4 + 4 * numbers;
  if (bytes.size() <= header || big_endian(bytes, 0) != magic) return false;
  // Divides step by step, because a product could overflow.
  std::uint64_t left = bytes.size() - header;
  for (std::size_t at = 4; at < header; at += 4) {
    const std::uint64_t number = big_endian(bytes, at);
    if (number == 0 || left % number != 0) return false;
    left /= number;
  }
  return left == 1;
}

FileBytes copy_of(View bytes) {
  return FileBytes(std::vector(bytes.begin(), bytes.end()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const View bytes(data, size);
  const bool has_images = accepts("input", [&] {
    const IdxImages images = parse_idx_images(bytes, "input");
    require(std::ranges::equal(format_idx_images(images), bytes), "images are as stored");
    const std::vector<std::uint8_t> labels(images.count, 1);
    const IdxDataset set(copy_of(bytes), copy_of(format_idx_labels(labels)), "input", "labels");
    std::vector<float> row(set.features());
    for (std::size_t sample = 0; sample < set.size(); ++sample) set.get(sample, row);
    require(row.back() == static_cast<float>(bytes.back()) / 255.0F, "the last pixel is read");
  });
  require(has_images == is_whole(bytes, 0x803, 3),
          "complete images are accepted, and no others");
  const bool has_labels = accepts("input", [&] {
    const View labels = parse_idx_labels(bytes, "input");
    require(std::ranges::equal(format_idx_labels(labels), bytes), "labels are as stored");
  });
  require(has_labels == is_whole(bytes, 0x801, 1),
          "complete labels are accepted, and no others");
  return 0;
}
