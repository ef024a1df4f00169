// MNIST's file format. A file must have exactly the length that its header promises. Look at
// check_length.
#include "04_distributed_sampler/datasets/idx_dataset.hpp"

#include "common/check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace dist {
namespace {

constexpr std::uint32_t kImagesMagic = 0x803;  // bytes (8) in three dimensions (3)
constexpr std::uint32_t kLabelsMagic = 0x801;
constexpr std::size_t kWord = 4;  // bytes of one number in a header
constexpr std::size_t kImagesHeader = 4 * kWord;
constexpr std::size_t kLabelsHeader = 2 * kWord;

using Bytes = std::vector<std::uint8_t>;
using View = std::span<const std::uint8_t>;

// The big-endian number at `offset`, which lies within the header.
std::uint32_t get_u32(View bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < kWord; ++i) value = value << 8 | bytes[offset + i];
  return value;
}

void put_u32(std::size_t value, Bytes& bytes) {
  if (value > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(
        fmt::format("{} does not fit into an IDX header, whose numbers have 32 bits", value));
  }
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<std::uint8_t>(value >> shift));
  }
}

void check_header(View bytes, std::size_t header, std::uint32_t magic,
                  const std::string& name) {
  // Check the magic number first: for a short file of another kind, its error helps more.
  if (bytes.size() >= kWord && get_u32(bytes, 0) != magic) {
    throw Error(fmt::format(
        "{}: begins with {:#010x}, but an IDX file of {} begins with {:#010x}", name,
        get_u32(bytes, 0), magic == kImagesMagic ? "images" : "labels", magic));
  }
  if (bytes.size() < header) {
    throw Error(fmt::format("{}: truncated: the header takes {} bytes, but the file has {}",
                            name, header, bytes.size()));
  }
}

// 6. Never trust a header. Compares the file's length with header + count * item. `item` must
// not be 0.
void check_length(View bytes, std::size_t header, std::uint64_t count, std::uint64_t item,
                  const std::string& name) {
  // The product of the three numbers in a hostile header may exceed 64 bits. After wrapping
  // around, the product could match the file's length.
  const std::uint64_t most = (std::numeric_limits<std::uint64_t>::max() - header) / item;
  if (count > most) {
    throw Error(
        fmt::format("{}: truncated: the header promises {} times {} bytes, but the file has {}",
                    name, count, item, bytes.size()));
  }
  const std::uint64_t promised = header + count * item;
  if (bytes.size() == promised) return;
  // Do not report the length of a file that is too long: open_file may not have read all of it.
  throw Error(
      bytes.size() < promised
          ? fmt::format("{}: truncated: the header promises {} bytes, but the file has {}",
                        name, promised, bytes.size())
          : fmt::format("{}: too long: the header promises {} bytes, but more follow", name,
                        promised));
}

}  // namespace

std::uint64_t idx_length(std::span<const std::uint8_t> begin) {
  constexpr auto kNoLimit = std::numeric_limits<std::uint64_t>::max();
  if (begin.size() < kImagesHeader) return kNoLimit;
  std::uint64_t length = get_u32(begin, kWord);
  if (get_u32(begin, 0) == kLabelsMagic) return kLabelsHeader + length;
  if (get_u32(begin, 0) != kImagesMagic) return 0;
  const bool overflow = __builtin_mul_overflow(length, get_u32(begin, 2 * kWord), &length) ||
                        __builtin_mul_overflow(length, get_u32(begin, 3 * kWord), &length) ||
                        __builtin_add_overflow(length, kImagesHeader, &length);
  return overflow ? kNoLimit : length;
}

IdxImages parse_idx_images(std::span<const std::uint8_t> bytes, const std::string& name) {
  check_header(bytes, kImagesHeader, kImagesMagic, name);
  const std::uint64_t count = get_u32(bytes, kWord);
  const std::uint64_t rows = get_u32(bytes, 2 * kWord);
  const std::uint64_t columns = get_u32(bytes, 3 * kWord);
  if (count == 0 || rows == 0 || columns == 0) {
    throw Error(fmt::format("{}: has no pixels: the header promises {} images of {} x {}", name,
                            count, rows, columns));
  }
  check_length(bytes, kImagesHeader, count, rows * columns, name);
  return {count, rows, columns, bytes.subspan(kImagesHeader)};
}

std::span<const std::uint8_t> parse_idx_labels(std::span<const std::uint8_t> bytes,
                                               const std::string& name) {
  check_header(bytes, kLabelsHeader, kLabelsMagic, name);
  const std::uint64_t count = get_u32(bytes, kWord);
  if (count == 0) throw Error(name + ": the header promises 0 labels");
  check_length(bytes, kLabelsHeader, count, 1, name);
  return bytes.subspan(kLabelsHeader);
}

std::vector<std::uint8_t> format_idx_images(const IdxImages& images) {
  Bytes bytes;
  bytes.reserve(kImagesHeader + images.pixels.size());
  for (const std::size_t number :
       {std::size_t{kImagesMagic}, images.count, images.rows, images.columns})
    put_u32(number, bytes);
  bytes.insert(bytes.end(), images.pixels.begin(), images.pixels.end());
  return bytes;
}

std::vector<std::uint8_t> format_idx_labels(std::span<const std::uint8_t> labels) {
  Bytes bytes;
  bytes.reserve(kLabelsHeader + labels.size());
  put_u32(kLabelsMagic, bytes);
  put_u32(labels.size(), bytes);
  bytes.insert(bytes.end(), labels.begin(), labels.end());
  return bytes;
}

// The spans stay valid when the files are moved into their members, because moving a file does
// not move its bytes.
IdxDataset::IdxDataset(FileBytes images, FileBytes labels, const std::string& images_name,
                       const std::string& labels_name)
    : images_file_(std::move(images)),
      labels_file_(std::move(labels)),
      images_(parse_idx_images(images_file_.span(), images_name)),
      labels_(parse_idx_labels(labels_file_.span(), labels_name)),
      labels_name_(labels_name) {
  if (images_.count != labels_.size()) {
    throw Error(fmt::format("{}: {} images, but {} labels in {}", images_name, images_.count,
                            labels_.size(), labels_name));
  }
  classes_ = std::size_t{*std::ranges::max_element(labels_)} + 1;
}

std::int32_t IdxDataset::get(std::size_t index, std::span<float> row) const {
  const View pixels = images_.pixels.subspan(index * features(), features());
  // Dividing by 255 gives the same floats as torchvision's ToTensor; multiplying by 1/255 does
  // not.
  std::transform(pixels.begin(), pixels.end(), row.begin(),
                 [](std::uint8_t pixel) { return static_cast<float>(pixel) / 255.0F; });
  const std::int32_t label = labels_[index];
  if (static_cast<std::size_t>(label) >= classes_) {
    throw Error(fmt::format("{}: changed while in use: the label of sample {} is now {}",
                            labels_name_, index, label));
  }
  return label;
}

}  // namespace dist
