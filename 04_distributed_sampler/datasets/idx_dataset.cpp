#include "04_distributed_sampler/datasets/idx_dataset.hpp"

#include "common/check.hpp"
#include "common/join.hpp"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>

namespace dist {
namespace {

constexpr std::size_t kMagic = 0x800;  // bytes; the number of dimensions is added
constexpr std::size_t kWord = 4;       // bytes of one number in a header

// A file, unpacked if it begins with gzip's magic number. zlib checks gzip's checksums, and
// ignores what follows the compressed data.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(::gzopen(path.c_str(), "rb")) {
    if (!file_) throw Error(path + ": cannot open: " + std::generic_category().message(errno));
  }

  // Returns the number of bytes read, which is smaller than `count` only at the file's end.
  std::size_t read(std::uint8_t* to, std::size_t count) {
    const int got = ::gzread(file_.get(), to, static_cast<unsigned>(count));
    int status = Z_OK;
    const char* const problem = ::gzerror(file_.get(), &status);
    if (got < 0 || status != Z_OK) {  // Z_BUF_ERROR: the compressed data are cut off
      throw Error(fmt::format("{}: {}: cannot be read past byte {}: {}", path_,
                              status == Z_BUF_ERROR ? "truncated" : "damaged", done_, problem));
    }
    done_ += static_cast<std::size_t>(got);
    return static_cast<std::size_t>(got);
  }

 private:
  struct Close {
    void operator()(gzFile file) const { ::gzclose(file); }
  };
  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
  std::size_t done_ = 0;  // bytes, unpacked
};

// Reads the header and returns its sizes.
std::vector<std::size_t> read_header(Reader& file, const std::string& path,
                                     std::size_t dimensions) {
  std::vector<std::uint8_t> header(kWord * (1 + dimensions));
  const std::size_t got = file.read(header.data(), header.size());
  std::vector<std::size_t> numbers(1 + dimensions);
  for (std::size_t i = 0; i < header.size(); ++i) {
    numbers[i / kWord] = numbers[i / kWord] << 8 | header[i];
  }
  // Check the magic number first: for a short file of another kind, its error helps more.
  const std::size_t magic = kMagic + dimensions;
  if (got >= kWord && numbers[0] != magic) {
    throw Error(
        fmt::format("{}: begins with {:#010x}, but an IDX file of {} begins with {:#010x}",
                    path, numbers[0], dimensions == 3 ? "images" : "labels", magic));
  }
  if (got < header.size()) {
    throw Error(fmt::format("{}: truncated: the header takes {} bytes, but the file has {}",
                            path, header.size(), got));
  }
  return {numbers.begin() + 1, numbers.end()};
}

}  // namespace

// 6. Never trust a header.
IdxFile read_idx(const std::string& path, std::size_t dimensions) {
  std::error_code problem;
  const std::uintmax_t on_disk = std::filesystem::file_size(path, problem);
  if (problem) throw Error(path + ": cannot open: " + problem.message());
  Reader file(path);
  IdxFile data{read_header(file, path, dimensions), {}};
  // The product of the sizes in a hostile header may exceed 64 bits. After wrapping around, the
  // product could match the file's length.
  std::size_t promised = 1;
  for (const std::size_t size : data.sizes) {
    if (__builtin_mul_overflow(promised, size, &promised)) {
      promised = std::numeric_limits<std::size_t>::max() - 1;
    }
  }
  const auto refuse = [&](const char* fault, const std::string& but) {
    throw Error(fmt::format("{}: {}: the header promises {} bytes, {}", path, fault,
                            join(data.sizes, " x "), but));
  };
  if (promised == 0) refuse("empty", "which are none");
  // The memory grows with what is in the file, whatever the header promises.
  constexpr std::size_t kBlock = 1 << 20;
  std::vector<std::uint8_t>& bytes = data.bytes;
  bytes.reserve(std::min<std::uintmax_t>(promised + 1, on_disk));
  for (std::size_t got = 1; got > 0 && bytes.size() <= promised;) {
    const std::size_t have = bytes.size();
    bytes.resize(have + std::min(kBlock, promised + 1 - have));
    got = file.read(bytes.data() + have, bytes.size() - have);
    bytes.resize(have + got);
  }
  if (bytes.size() > promised) refuse("too long", "but more follow");
  if (bytes.size() < promised) {
    refuse("truncated", fmt::format("but {} follow", bytes.size()));
  }
  return data;
}

IdxDataset read_idx_dataset(const std::string& images_path, const std::string& labels_path) {
  IdxFile images = read_idx(images_path, 3);
  IdxFile labels = read_idx(labels_path, 1);
  if (images.sizes[0] != labels.sizes[0]) {
    throw Error(fmt::format("{}: {} images, but {} labels in {}", images_path, images.sizes[0],
                            labels.sizes[0], labels_path));
  }
  return {images.sizes[1] * images.sizes[2], std::move(images.bytes), std::move(labels.bytes)};
}

IdxDataset::IdxDataset(std::size_t features, std::vector<std::uint8_t> pixels,
                       std::vector<std::uint8_t> labels)
    : Dataset(labels.size(), features, std::size_t{*std::ranges::max_element(labels)} + 1),
      pixels_(std::move(pixels)),
      labels_(std::move(labels)) {}

std::int32_t IdxDataset::get(std::size_t index, std::span<float> row) const {
  const auto pixels = std::span(pixels_).subspan(index * features(), features());
  // Dividing by 255 gives the same floats as torchvision's ToTensor; multiplying by 1/255 does
  // not.
  std::ranges::transform(pixels, row.begin(),
                         [](std::uint8_t pixel) { return static_cast<float>(pixel) / 255.0F; });
  return labels_[index];
}

}  // namespace dist
