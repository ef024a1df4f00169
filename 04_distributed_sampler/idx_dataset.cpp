// Reading data that others wrote: MNIST's files, compressed or not.
//
// A training run must not begin on half a data set, so that every byte is accounted for: a gzip
// stream must reach its checksum and a file must be as long as its header says, to the byte.
// Built on zlib's inflate rather than gzopen, which takes a file that is not gzip, and whatever
// follows a stream, without a word. Look at inflate_all and check_length.
#include "04_distributed_sampler/idx_dataset.hpp"

#include "common/check.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <span>
#include <system_error>
#include <utility>

namespace dist {
namespace {

constexpr std::uint32_t kImagesMagic = 0x803;  // bytes (8) in three dimensions (3)
constexpr std::uint32_t kLabelsMagic = 0x801;
constexpr std::size_t kWord = 4;  // bytes of one number in a header
constexpr std::size_t kImagesHeader = 4 * kWord;
constexpr std::size_t kLabelsHeader = 2 * kWord;
constexpr std::size_t kBlock = 1 << 16;  // bytes read or decompressed at a time

using Bytes = std::vector<std::uint8_t>;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
struct EndInflate {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};

Bytes read_raw(const std::string& path) {
  const auto reason = [] { return std::generic_category().message(errno); };
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file) throw Error(fmt::format("{}: cannot open: {}", path, reason()));
  Bytes bytes;
  std::array<std::uint8_t, kBlock> block;
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), file.get())) {
    bytes.insert(bytes.end(), block.begin(), block.begin() + got);
  }
  // A folder arrives here: it opens, and cannot be read.
  if (std::ferror(file.get()) != 0) {
    throw Error(fmt::format("{}: cannot read past byte {}: {}", path, bytes.size(), reason()));
  }
  return bytes;
}

// Decompresses one gzip stream, or several one after the other, which is what `cat a.gz b.gz`
// makes.
Bytes inflate_all(Bytes packed, const std::string& path) {
  constexpr int kGzipOnly = 16 + MAX_WBITS;  // zlib's way to say it
  z_stream stream{};
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) throw Error(path + ": cannot start zlib");
  const std::unique_ptr<z_stream, EndInflate> owner(&stream);
  Bytes plain;
  std::array<std::uint8_t, kBlock> block;
  bool complete = false;
  for (std::size_t used = 0; used < packed.size();) {
    // In pieces, because zlib counts in 32 bits.
    const std::size_t offered = std::min(packed.size() - used, kBlock);
    stream.next_in = packed.data() + used;
    stream.avail_in = static_cast<uInt>(offered);
    stream.next_out = block.data();
    stream.avail_out = static_cast<uInt>(block.size());
    const int status = inflate(&stream, Z_NO_FLUSH);
    used += offered - stream.avail_in;
    plain.insert(plain.end(), block.data(), stream.next_out);
    if (status != Z_OK && status != Z_STREAM_END) {
      throw Error(fmt::format("{}: corrupt gzip stream near byte {} of {}: {}", path, used,
                              packed.size(), stream.msg ? stream.msg : zError(status)));
    }
    complete = status == Z_STREAM_END;  // checksum and length have been compared
    if (complete) inflateReset(&stream);
  }
  if (!complete) {
    throw Error(
        fmt::format("{}: truncated: the gzip stream does not end within the file's {} bytes",
                    path, packed.size()));
  }
  return plain;
}

// The big-endian number at `offset`, which lies within the header.
std::uint32_t get_u32(const Bytes& bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < kWord; ++i) value = value << 8 | bytes[offset + i];
  return value;
}

void put_u32(std::size_t value, Bytes& bytes) {
  if (value > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(
        fmt::format("{} does not fit an IDX header, whose numbers have 32 bits", value));
  }
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<std::uint8_t>(value >> shift));
  }
}

void check_header(const Bytes& bytes, std::size_t header, std::uint32_t magic,
                  const std::string& name) {
  // The magic first: for a short file of another kind it is the better explanation.
  if (bytes.size() >= kWord && get_u32(bytes, 0) != magic) {
    throw Error(fmt::format("{}: begins with {:#010x}, an IDX file of {} with {:#010x}", name,
                            get_u32(bytes, 0), magic == kImagesMagic ? "images" : "labels",
                            magic));
  }
  if (bytes.size() < header) {
    throw Error(fmt::format("{}: truncated: the header takes {} bytes, the file has {}", name,
                            header, bytes.size()));
  }
}

// Compares the file's length with header + count * item. `item` is not 0.
void check_length(const Bytes& bytes, std::size_t header, std::uint64_t count,
                  std::uint64_t item, const std::string& name) {
  // The product of the three numbers of a hostile header exceeds 64 bits; wrapped around, it
  // could match the file's length.
  const std::uint64_t most = (std::numeric_limits<std::uint64_t>::max() - header) / item;
  if (count > most) {
    throw Error(
        fmt::format("{}: truncated: the header promises {} times {} bytes, the file has {}",
                    name, count, item, bytes.size()));
  }
  const std::uint64_t promised = header + count * item;
  if (bytes.size() == promised) return;
  throw Error(fmt::format("{}: {}: the header promises {} bytes, the file has {}", name,
                          bytes.size() < promised ? "truncated" : "too long", promised,
                          bytes.size()));
}

}  // namespace

std::vector<std::uint8_t> read_file(const std::string& path) {
  Bytes bytes = read_raw(path);
  const bool gzip = bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
  return gzip ? inflate_all(std::move(bytes), path) : bytes;
}

IdxImages parse_idx_images(const std::vector<std::uint8_t>& bytes, const std::string& name) {
  check_header(bytes, kImagesHeader, kImagesMagic, name);
  const std::uint64_t count = get_u32(bytes, kWord);
  const std::uint64_t rows = get_u32(bytes, 2 * kWord);
  const std::uint64_t columns = get_u32(bytes, 3 * kWord);
  if (count == 0 || rows == 0 || columns == 0) {
    throw Error(fmt::format("{}: no pixels: the header promises {} images of {} x {}", name,
                            count, rows, columns));
  }
  check_length(bytes, kImagesHeader, count, rows * columns, name);
  return {count, rows, columns, Bytes(bytes.begin() + kImagesHeader, bytes.end())};
}

std::vector<std::uint8_t> parse_idx_labels(const std::vector<std::uint8_t>& bytes,
                                           const std::string& name) {
  check_header(bytes, kLabelsHeader, kLabelsMagic, name);
  const std::uint64_t count = get_u32(bytes, kWord);
  if (count == 0) throw Error(name + ": the header promises 0 labels");
  check_length(bytes, kLabelsHeader, count, 1, name);
  return {bytes.begin() + kLabelsHeader, bytes.end()};
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

std::vector<std::uint8_t> format_idx_labels(const std::vector<std::uint8_t>& labels) {
  Bytes bytes;
  bytes.reserve(kLabelsHeader + labels.size());
  put_u32(kLabelsMagic, bytes);
  put_u32(labels.size(), bytes);
  bytes.insert(bytes.end(), labels.begin(), labels.end());
  return bytes;
}

IdxDataset::IdxDataset(IdxImages images, std::vector<std::uint8_t> labels,
                       const std::string& name)
    : images_(std::move(images)), labels_(std::move(labels)) {
  if (images_.count != labels_.size()) {
    throw Error(
        fmt::format("{}: {} images, but {} labels", name, images_.count, labels_.size()));
  }
  for (const std::size_t label : labels_) classes_ = std::max(classes_, label + 1);
}

std::int32_t IdxDataset::get(std::size_t index, std::span<float> row) const {
  const std::span pixels = std::span(images_.pixels).subspan(index * features(), features());
  // Divided, not multiplied by 1/255: the same floats as torchvision's ToTensor.
  std::transform(pixels.begin(), pixels.end(), row.begin(),
                 [](std::uint8_t pixel) { return static_cast<float>(pixel) / 255.0F; });
  return labels_[index];
}

}  // namespace dist
