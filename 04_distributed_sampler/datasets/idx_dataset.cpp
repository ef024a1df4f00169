#include "04_distributed_sampler/datasets/idx_dataset.hpp"

#include "04_distributed_sampler/datasets/packed_file.hpp"
#include "04_distributed_sampler/datasets/refuse.hpp"
#include "common/join.hpp"
#include "common/physical_memory.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <system_error>

namespace dist {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWord = 4;  // bytes of one number in a header
// A file begins with two zeros, the type of its numbers, and the number of its dimensions.
constexpr std::size_t kImages = 0x803, kLabels = 0x801;
constexpr std::size_t kIntegers = 0xc01, kRowsOfIntegers = 0xc02;  // other labels
constexpr std::pair<std::size_t, const char*> kTypes[]{
    {0x08, "unsigned bytes"},  {0x09, "signed bytes"},  {0x0b, "16-bit integers"},
    {0x0c, "32-bit integers"}, {0x0d, "32-bit floats"}, {0x0e, "64-bit floats"}};

std::size_t number_at(const std::uint8_t* bytes) {
  std::size_t number = 0;
  for (const std::uint8_t byte : std::span(bytes, kWord)) number = number << 8 | byte;
  return number;
}

bool is_idx(std::size_t magic) {
  return std::ranges::any_of(kTypes,
                             [&](const auto& type) { return magic >> 8 == type.first; });
}

// Says what a file is that is not of the wanted kind.
std::string kind_of(std::size_t magic, std::span<const std::uint8_t> first) {
  for (const auto& [type, name] : kTypes) {
    if (magic >> 8 == type) return fmt::format("{}-dimensional {}", magic & 0xff, name);
  }
  const auto kind = what_is({reinterpret_cast<const char*>(first.data()), first.size()});
  return kind.empty() ? fmt::format("begins with {:#010x}", magic) : kind;
}

// How to make labels of what a file holds instead, where that is known.
const char* cure_of(std::size_t magic) {
  if ((magic & 0xff) == 1) return "; convert them, in NumPy with labels.astype('u1')";
  return (magic & 0xff) == 2 ? "; one-hot labels become numbers with labels.argmax(1)" : "";
}

// Reads the header and returns its sizes; for integers, the last size is that of a number.
std::vector<std::size_t> read_header(PackedFile& file, const std::string& path,
                                     std::size_t dimensions) {
  const bool images = dimensions == 3;
  std::vector<std::uint8_t> first;
  const auto have = [&](std::size_t count) {
    const std::size_t before = first.size();
    first.resize(count);
    first.resize(before + file.read(first.data() + before, count - before));
    return first.size() == count;
  };
  const std::size_t magic = have(kWord) ? number_at(first.data()) : 0;
  if (images ? magic != kImages
             : magic != kLabels && magic != kIntegers && magic != kRowsOfIntegers) {
    have(128);
    throw Error(fmt::format(
        "{}: {}is not an IDX file of {}, but {}{}", path, file.unpacks() ? "unpacked, it " : "",
        images ? "images (3-dimensional unsigned bytes)"
               : "labels (1-dimensional unsigned bytes, or 32-bit "
                 "integers in 1 or 2 dimensions)",
        kind_of(magic, first), images || !is_idx(magic) ? "" : cure_of(magic)));
  }
  const std::size_t header = kWord * (1 + (magic & 0xff));
  check_file(have(header), "{}: truncated: the header takes {} bytes, but the file has {}",
             path, header, first.size());
  std::vector<std::size_t> sizes;
  for (std::size_t at = kWord; at < header; at += kWord) sizes.push_back(number_at(&first[at]));
  if (magic != kImages && magic != kLabels) sizes.push_back(kWord);
  return sizes;
}

// Paths by what the files hold, such as "train-images".
using IdxFiles = std::map<std::string, fs::path>;

// What a file of this name holds; "" if it is not the name of an IDX file. A name that begins
// with a dot is that of macOS's notes about a file.
std::string content_of(const fs::path& path) {
  std::string name = path.filename().string();
  if (name.starts_with('.')) return "";
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  std::ranges::replace(name, '.', '-');
  for (const char* end : {"-images-idx3-ubyte", "-labels-idx1-ubyte", "-labels-idx2-int"}) {
    if (name.ends_with(end)) return name.substr(0, name.rfind("-idx"));
  }
  return "";
}

// What is in a folder, in the same order on every host; nothing if it cannot be read.
std::vector<fs::path> entries(const fs::path& folder) {
  std::error_code unreadable;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) paths.push_back(entry);
  std::ranges::sort(paths);  // a file comes before its compressed copy
  return paths;
}

bool is_folder(const fs::path& path) {
  std::error_code unknown;
  return fs::is_directory(path, unknown);
}

// The IDX files in a folder. Each may be in a folder of its own, which has its name.
IdxFiles files_in(const fs::path& folder) {
  IdxFiles files;
  for (const fs::path& path : entries(folder)) {
    const std::string content = content_of(path);
    if (content.empty()) continue;
    for (const fs::path& file : is_folder(path) ? entries(path) : std::vector{path}) {
      if (content_of(file) == content) files.emplace(content, file);
    }
  }
  return files;
}

// The IDX files of the only folder that has any, on the first level where one has. The images
// of one data set must not meet the labels of another, which may have the same names and sizes.
IdxFiles files_below(const std::string& top) {
  constexpr int kDeepest = 2;  // torchvision's MNIST/raw
  std::vector<fs::path> level{top};
  for (int depth = 0; depth <= kDeepest; ++depth) {
    std::vector<std::string> found;
    for (const fs::path& folder : level) {
      if (!files_in(folder).empty()) found.push_back(folder.string());
    }
    check_file(found.size() < 2, "{}: choose one of its folders: {}", top, first_few(found));
    if (!found.empty()) return files_in(found[0]);
    std::vector<fs::path> next;
    for (const fs::path& folder : level)
      std::ranges::copy_if(entries(folder), std::back_inserter(next), is_folder);
    level = std::move(next);
  }
  std::vector<std::string> names;
  for (const fs::path& path : entries(top)) names.push_back(path.filename().string());
  throw Error(
      fmt::format("{}: contains no *-images-idx3-ubyte[.gz], but {}", top, first_few(names)));
}

}  // namespace

std::vector<IdxPair> find_idx_pairs(const std::string& folder) {
  std::error_code problem;
  const fs::directory_iterator readable(folder, problem);
  check_file(!problem, "{}: {}", folder, problem.message());
  std::map<std::string, IdxPair> pairs;  // by the begin of their names, such as "train"
  for (const auto& [content, path] : files_below(folder)) {
    IdxPair& pair = pairs[content.substr(0, content.rfind('-'))];
    (content.ends_with("-images") ? pair.images : pair.labels) = path.string();
  }
  std::vector<IdxPair> set;
  std::vector<std::string> sets;
  for (const auto& [name, pair] : pairs) {
    check_file(!pair.images.empty() && !pair.labels.empty(),
               "{}: {}-{}-ubyte[.gz] is missing, but {} is there", folder, name,
               pair.images.empty() ? "images-idx3" : "labels-idx1", pair.images + pair.labels);
    if (!name.ends_with("train")) continue;
    const std::string begin = name.substr(0, name.size() - 5);
    const auto test = pairs.find(begin + (pairs.contains(begin + "t10k") ? "t10k" : "test"));
    if (test == pairs.end()) continue;
    set = {pair, test->second};
    sets.push_back(name);
  }
  if (pairs.size() == 1) return {pairs.begin()->second};
  check_file(!sets.empty(), "{}: {} pairs of files, but not train-* and t10k-* or test-*",
             folder, pairs.size());
  check_file(sets.size() == 1, "{}: has {}: move one set's files to a folder of their own",
             folder, first_few(sets));
  return set;
}

// [6] Never trust a header.
IdxFile read_idx(const std::string& path, std::size_t dimensions) {
  std::error_code problem;
  const std::uintmax_t on_disk = fs::file_size(path, problem);
  check_file(!problem, "{}: cannot open: {}", path, problem.message());
  PackedFile file(path);
  IdxFile data{read_header(file, path, dimensions), {}};
  // A hostile header's product may exceed 64 bits, wrap around, and match the file's length.
  std::size_t promised = 1;
  for (const std::size_t size : data.sizes) {
    if (__builtin_mul_overflow(promised, size, &promised)) {
      promised = std::numeric_limits<std::size_t>::max() - 1;
    }
  }
  const auto check = [&](bool holds, const char* fault, const std::string& but) {
    check_file(holds, "{}: {}: the header promises {} bytes, {}", path, fault,
               join(data.sizes, " x "), but);
  };
  check(promised > 0, "empty", "which are none");
  // The memory grows with what is in the file, whatever the header promises.
  constexpr std::size_t kBlock = 1 << 20;
  std::vector<std::uint8_t>& bytes = data.bytes;
  const auto check_fits = [&](std::uintmax_t count) {
    check(static_cast<double>(count) < physical_memory(), "too large",
          "which do not fit into this host's memory");
  };
  check_fits(std::min<std::uintmax_t>(promised, on_disk));
  bytes.reserve(std::min<std::uintmax_t>(promised + 1, on_disk));
  for (std::size_t got = 1; got > 0 && bytes.size() <= promised;) {
    const std::size_t have = bytes.size();
    check_fits(have);
    bytes.resize(have + std::min(kBlock, promised + 1 - have));
    got = file.read(bytes.data() + have, bytes.size() - have);
    bytes.resize(have + got);
  }
  check(bytes.size() <= promised, "too long", "but more follow");
  check(bytes.size() == promised, "truncated", fmt::format("but {} follow", bytes.size()));
  if (data.sizes.size() > dimensions) {  // of each row of integers, the first is the class
    const std::size_t rows = data.sizes[0];
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t label = number_at(&bytes[row * (promised / rows)]);
      check_file(label < 256, "{}: label {} is {}, not between 0 and 255", path, row,
                 static_cast<std::int32_t>(label));
      bytes[row] = static_cast<std::uint8_t>(label);
    }
    data.sizes.resize(1);
    bytes.resize(rows);
  }
  return data;
}

IdxDataset read_idx_dataset(const std::string& images_path, const std::string& labels_path) {
  IdxFile images = read_idx(images_path, 3);
  IdxFile labels = read_idx(labels_path, 1);
  check_file(images.sizes[0] == labels.sizes[0], "{}: {} images, but {} labels in {}",
             images_path, images.sizes[0], labels.sizes[0], labels_path);
  return {images.sizes[1] * images.sizes[2], std::move(images.bytes), std::move(labels.bytes)};
}

IdxDataset::IdxDataset(std::size_t features, std::vector<std::uint8_t> pixels,
                       std::vector<std::uint8_t> labels)
    : Dataset(labels.size(), features, std::size_t{*std::ranges::max_element(labels)} + 1),
      pixels_(std::move(pixels)),
      labels_(std::move(labels)) {}

void IdxDataset::get(std::size_t index, std::span<float> row,
                     std::span<std::int32_t> targets) const {
  const auto pixels = std::span(pixels_).subspan(index * features(), features());
  // Dividing by 255 gives the floats of torchvision's ToTensor; multiplying by 1/255 does not.
  std::ranges::transform(pixels, row.begin(),
                         [](std::uint8_t pixel) { return static_cast<float>(pixel) / 255.0F; });
  targets[0] = labels_[index];
}

}  // namespace dist
