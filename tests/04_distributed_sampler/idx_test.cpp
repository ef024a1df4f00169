// Lesson 4: good and bad data files, compared with bytes written out here.
#include "04_distributed_sampler/datasets/idx_dataset.hpp"
#include "tests/support/idx_bytes.hpp"
#include "tests/support/mpi_test.hpp"
#include "tools/exercises/files.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <utility>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

const Bytes kPixels{0, 1, 51, 102, 153, 204, 255, 254, 128, 7, 9, 200};
// A file with two images of 2 x 3 pixels, and the same file compressed with `gzip -9`.
const Bytes kPlain = idx({kImages, 2, 2, 3}, kPixels);
const Bytes kPacked{0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x63,
                    0x60, 0xe0, 0x60, 0x66, 0x60, 0x60, 0x60, 0x82, 0x62, 0x66, 0x06,
                    0x46, 0xe3, 0xb4, 0x99, 0x67, 0xfe, 0xff, 0x6b, 0x60, 0xe7, 0x3c,
                    0x01, 0x00, 0x07, 0x41, 0x6c, 0x84, 0x1c, 0x00, 0x00, 0x00};

// The peak memory use of this process so far, in MiB.
long peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

// How many MiB reading small files may add to the peak. A sanitizer keeps up to 256 MiB of
// freed memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long kLittle = 512;
#else
constexpr long kLittle = 64;
#endif

// A file of its own, which is removed with the object.
struct TemporaryFile {
  TemporaryFolder folder;
  std::string path = folder / "file";
  explicit TemporaryFile(const Bytes& bytes) {
    write_content(path, {bytes.begin(), bytes.end()});
  }
};

// Compresses these bytes and some MiB of zeros into a file.
void pack(const Bytes& bytes, int zeros, const std::string& path) {
  const gzFile file = ::gzopen(path.c_str(), "wb1");
  ::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  const Bytes block(1U << 20);
  for (int i = 0; i < zeros; ++i) ::gzwrite(file, block.data(), 1U << 20);
  ::gzclose(file);
}

IdxFile read(const Bytes& bytes, std::size_t dimensions = 3) {
  return read_idx(TemporaryFile(bytes).path, dimensions);
}

// The error for these bytes, without the name of the file, with which every error begins.
std::string refusal(const Bytes& bytes, std::size_t dimensions = 3) {
  const TemporaryFile file(bytes);
  const std::string error = error_of([&] { read_idx(file.path, dimensions); });
  CHECK(error.starts_with(file.path + ": "));
  return error.substr(std::min(error.size(), file.path.size() + 2));
}

}  // namespace

TEST_CASE("images and labels are read from IDX files, plain or compressed", "[one process]") {
  for (const Bytes& bytes : {kPlain, kPacked}) {
    const IdxFile images = read(bytes);
    CHECK(images.sizes == Indices{2, 2, 3});
    CHECK(images.bytes == kPixels);
  }
  const Bytes labels = idx({kLabels, 3}, {4, 0, 9});
  CHECK(read(labels, 1).sizes == Indices{3});
  CHECK(read(labels, 1).bytes == Bytes{4, 0, 9});

  const TemporaryFile images_file(kPacked), labels_file(idx({kLabels, 2}, {3, 8}));
  const IdxDataset data = read_idx_dataset(images_file.path, labels_file.path);
  CHECK(data.size() == 2);
  CHECK(data.features() == 6);
  CHECK(data.classes() == 9);
  std::vector<float> row(6);
  CHECK(data.get(1, row) == 8);
  CHECK(row == std::vector<float>{1.0F, 254.0F / 255, 128.0F / 255, 7.0F / 255, 9.0F / 255,
                                  200.0F / 255});
  // QMNIST's labels are the first of several integers.
  CHECK(read(idx({0xc02, 2, 3, 7, 1, 999, 4, 0, 256}, {}), 1).bytes == Bytes{7, 4});
  CHECK(read(idx({0xc01, 3, 7, 0, 255}, {}), 1).sizes == Indices{3});
  CHECK(read(idx({0xc01, 3, 7, 0, 255}, {}), 1).bytes == Bytes{7, 0, 255});
  CHECK(refusal(idx({0xc02, 2, 1, 7, 256}, {}), 1) == "label 1 is 256, not between 0 and 255");
  CHECK(refusal(idx({0xc01, 2, 7, 0xffffff9c}, {}), 1) ==  // PyTorch's ignore_index
        "label 1 is -100, not between 0 and 255");
  CHECK(refusal(idx({0x802, 1, 3}, {0, 1, 0}), 1).ends_with("labels.argmax(1)"));
  CHECK(refusal(idx({0xb01, 1}, {0, 1}), 1).ends_with("labels.astype('u1')"));
  CHECK(contains(refusal(idx({0xc02, 2, 2, 7, 256}, {}), 1), "2 x 2 x 4 bytes, but 8 follow"));

  const TemporaryFile more(idx({kLabels, 3}, {1, 2, 3}));
  CHECK(error_of([&] { read_idx_dataset(images_file.path, more.path); }) ==
        images_file.path + ": 2 images, but 3 labels in " + more.path);
}

TEST_CASE("a data set is found up to two folders below the given one", "[one process]") {
  for (const std::string below : {"", "raw/", "MNIST/raw/", "a/b/c/"}) {
    const TemporaryFolder folder;
    std::filesystem::create_directories(folder / below);
    // A compressed copy beside the file may be older than the file.
    for (const std::string name :
         {"train-images-idx3-ubyte.gz", "train-images-idx3-ubyte", "train-labels-idx1-ubyte"}) {
      std::ofstream(folder / (below + name)) << "x";
    }
    std::vector<IdxPair> pairs;
    const std::string error = error_of([&] { pairs = find_idx_pairs(folder.path().string()); });
    CAPTURE(below, error);
    if (below == "a/b/c/") {
      CHECK(contains(error, "contains no *-images-idx3-ubyte"));
    } else {
      REQUIRE(pairs.size() == 1);
      CHECK(pairs[0].images == folder / (below + "train-images-idx3-ubyte"));
    }
  }
}

TEST_CASE("a damaged compressed file is refused", "[one process]") {
  for (std::size_t length = 0; length < kPacked.size(); ++length) {
    CAPTURE(length);
    const Bytes cut(kPacked.begin(), kPacked.begin() + static_cast<std::ptrdiff_t>(length));
    CHECK_FALSE(refusal(cut).empty());
  }
  for (std::size_t at = 10; at < kPacked.size(); ++at) {  // after gzip's own header
    CAPTURE(at);
    Bytes flipped = kPacked;
    flipped[at] ^= 1;
    CHECK_FALSE(refusal(flipped).empty());
  }
  CHECK(contains(refusal(joined(kPacked, kPacked)), "too long"));
  // Python's gzip refuses whatever follows, but for zeros.
  CHECK(read(joined(kPacked, Bytes(700))).bytes == kPixels);
  for (const Bytes& more : {Bytes{'g', 'a', 'r'}, Bytes{0x1f}, Bytes{0, 0, 'g'}}) {
    CHECK(
        contains(refusal(joined(kPacked, more)), "damaged: cannot be read past byte 28: what"));
  }
  const TemporaryFile twice({});
  pack(kPacked, 0, twice.path);
  CHECK(contains(error_of([&] { read_idx(twice.path, 3); }),
                 ": unpacked, it is not an IDX file of images (3-dimensional unsigned bytes), "
                 "but gzip data"));
}

TEST_CASE("errors name the file, and a false size in the header wastes no memory",
          "[one process]") {
  const TemporaryFolder folder;
  const std::string missing = folder / "none", pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& path : {missing, pipe, folder.path().string()}) {
    CHECK(error_of([&] { read_idx(path, 3); }).starts_with(path + ": cannot open: "));
  }
  const long peak_before = peak_memory();
  constexpr std::uint32_t kMost = 0xffffffffU, kHalf = 0x80000000U;
  const Bytes six(kPixels.begin(), kPixels.begin() + 6);
  const std::string not_images =
      "is not an IDX file of images (3-dimensional unsigned bytes), but ";
  const auto text = [](const std::string& all) { return Bytes(all.begin(), all.end()); };
  const std::string zip = "PK\3\4" + std::string(26, '.');
  for (const auto& [bytes, error] : std::vector<std::pair<Bytes, std::string>>{
           {{}, not_images + "an empty file"},
           {{0, 0, 8}, not_images + "begins with 0x00000000"},
           {idx({kImages, 2, 2}, {0, 0, 0}), "truncated: the header takes 16 bytes"},
           {idx({kLabels, 2, 2, 3}, kPixels), not_images + "1-dimensional unsigned bytes"},
           {idx({0x804, 2, 2, 3, 3}, kPixels), not_images + "4-dimensional unsigned bytes"},
           {idx({0xd03, 2, 2, 3}, kPixels), not_images + "3-dimensional 32-bit floats"},
           {idx({0x03080000, 2, 2, 3}, kPixels), not_images + "begins with 0x03080000"},
           {text(zip + "x.csv"), not_images + "a zip archive"},
           {text(zip + "x/data.pkl"), not_images + "a file of torch.save"},
           {text("\x80\2\x8a\nl"), not_images + "a file of torch.save"},
           {text("\x93NUMPY\1"), not_images + "a NumPy array"},
           {text("\x89PNG\r\n"), not_images + "a PNG image"},
           {text("version https://git-lfs.g"), not_images + "a Git LFS pointer"},
           {text("\n<!DOCTYPE html>\n<html>"), not_images + "a web page: <!DOCTYPE html>"},
           {text("404: Not Found\n"), not_images + "text: 404: Not Found"},
           {idx({kImages, 2, 2, 3}, six),
            "truncated: the header promises 2 x 2 x 3 bytes, but 6 follow"},
           {idx({kImages, 1, 2, 3}, kPixels),
            "too long: the header promises 1 x 2 x 3 bytes, but more follow"},
           {joined(kPlain, {0}), "too long"},
           {idx({kImages, 0, 2, 3}, {}), "empty"},
           {idx({kImages, 2, 2, 0}, {}), "empty"},
           {idx({kImages, kMost, kMost, kMost}, kPixels), "truncated"},
           {idx({kImages, 1024, 512, 512}, kPixels), "truncated"},  // that is 256 MiB
           // 4 * 2^31 * 2^31 wraps around to 0.
           {idx({kImages, 4, kHalf, kHalf}, {}), "truncated"}}) {
    CAPTURE(bytes, error);
    CHECK(refusal(bytes).starts_with(error));
  }
  for (const Bytes& bytes : {Bytes{}, idx({kImages, 2}, {1, 2}), idx({kLabels, 3}, {1, 2}),
                             idx({kLabels, 1}, {1, 2}), idx({kLabels, kMost}, {1})}) {
    CAPTURE(bytes);
    CHECK_FALSE(refusal(bytes, 1).empty());
  }
  CHECK(peak_memory() - peak_before < kLittle);
}

TEST_CASE("a file that does not fit into memory is refused", "[one process]") {
  const TemporaryFile huge(idx({kImages, 1U << 20, 1024, 1024}, {}));
  std::filesystem::resize_file(huge.path, 16 + (std::uintmax_t{1} << 40));  // takes no space
  CHECK(error_of([&] { read_idx(huge.path, 3); }) ==
        huge.path +
            ": too large: the header promises 1048576 x 1024 x 1024 bytes, which do "
            "not fit into this host's memory");
}

TEST_CASE("a compressed file is unpacked no further than its header promises",
          "[one process]") {
  const TemporaryFile file({});
  pack(kPlain, 256, file.path);  // compressed to 1.1 MB
  const long before = peak_memory();
  CHECK(contains(error_of([&] { read_idx(file.path, 3); }),
                 file.path + ": too long: the header promises 2 x 2 x 3 bytes"));
  CHECK(peak_memory() - before < kLittle);
}
