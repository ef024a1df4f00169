// Lesson 4: good and bad data files. They are compared with bytes written out here, and with
// MNIST itself if it is in a folder next to the repository.
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/datasets/idx_dataset.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/idx_files.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <utility>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("IDX files are written and read back byte for byte") {
  const IdxImages images = parse_idx_images(kPlain, "plain");
  CHECK(images.count == 2);
  CHECK(images.rows == 2);
  CHECK(images.columns == 3);
  CHECK(copy_of(images.pixels) == kPixels);
  CHECK(format_idx_images(images) == kPlain);
  const Bytes labels = idx({kLabels, 3}, {4, 0, 9});
  CHECK(copy_of(parse_idx_labels(labels, "labels")) == Bytes{4, 0, 9});
  CHECK(format_idx_labels(Bytes{4, 0, 9}) == labels);

  const IdxDataset data(FileBytes(kPlain), FileBytes(idx({kLabels, 2}, {3, 8})), "images",
                        "labels");
  CHECK(data.size() == 2);
  CHECK(data.features() == 6);
  CHECK(data.classes() == 9);
  std::vector<float> row(6);
  CHECK(data.get(1, row) == 8);
  CHECK(row == std::vector<float>{1.0F, 254.0F / 255, 128.0F / 255, 7.0F / 255, 9.0F / 255,
                                  200.0F / 255});
}

TEST_CASE("a compressed file is unpacked, and a damaged one is refused") {
  const auto read = [](const Bytes& bytes) {
    return copy_of(open_file(TemporaryFile(bytes).path, idx_length).span());
  };
  CHECK(read(kPlain) == kPlain);
  CHECK(read({}).empty());
  CHECK(read(kPacked) == kPlain);
  CHECK(read(joined(kPacked, kPacked)) == joined(kPlain, kPlain));
  for (std::size_t length = 2; length < kPacked.size(); ++length) {
    CAPTURE(length);
    const Bytes cut(kPacked.begin(), kPacked.begin() + static_cast<std::ptrdiff_t>(length));
    CHECK_THROWS_AS(read(cut), Error);
    // Reading this file fails or, if the second stream begins with pixels, parsing it does,
    // because the file is too long.
    CHECK_THROWS_AS(parse_idx_images(read(joined(kPacked, cut)), "images"), Error);
  }
  for (std::size_t at = 10; at < kPacked.size(); ++at) {  // after gzip's own header
    CAPTURE(at);
    Bytes flipped = kPacked;
    flipped[at] ^= 1;
    CHECK_THROWS_AS(parse_idx_images(read(flipped), "images"), Error);
  }
  CHECK_THROWS_AS(read(joined(kPacked, {'x', 'y'})), Error);
}

TEST_CASE("errors name the file, and a false size in the header wastes no memory") {
  const TemporaryFile broken(Bytes(kPacked.begin(), kPacked.end() - 1));
  CHECK(contains(error_of([&] { open_file(broken.path, idx_length); }), broken.path));
  const std::string folder = std::filesystem::temp_directory_path().string();
  CHECK(contains(error_of([&] { open_file(folder, idx_length); }), folder));
  CHECK(contains(error_of([&] { open_file(broken.path + ".not", idx_length); }),
                 broken.path + ".not"));

  const long peak_before = peak_memory();
  const auto images = [](const Bytes& bytes) {
    return error_of([&] { parse_idx_images(bytes, "some/file"); });
  };
  const auto labels = [](const Bytes& bytes) {
    return error_of([&] { parse_idx_labels(bytes, "some/file"); });
  };
  constexpr std::uint32_t kMost = 0xffffffffU, kHalf = 0x80000000U;
  const Bytes six(kPixels.begin(), kPixels.begin() + 6);
  for (const Bytes& bytes :
       {Bytes{}, Bytes{0, 0, 8}, idx({kImages}, {}), idx({kImages, 2, 2}, {0, 0, 0}),
        idx({kLabels, 2, 2, 3}, kPixels), idx({0x03080000, 2, 2, 3}, kPixels),
        idx({kImages, 2, 2, 3}, six), idx({kImages, 1, 2, 3}, kPixels), joined(kPlain, {0}),
        idx({kImages, 0, 2, 3}, {}), idx({kImages, 2, 0, 3}, {}), idx({kImages, 2, 2, 0}, {}),
        idx({kImages, kMost, kMost, kMost}, kPixels), idx({kImages, 1024, 512, 512}, kPixels),
        idx({kImages, 4, kHalf, kHalf}, {})}) {  // 4 * 2^31 * 2^31 wraps around to 0
    CAPTURE(bytes);
    CHECK(images(bytes).starts_with("some/file: "));
  }
  for (const Bytes& bytes :
       {Bytes{}, idx({kLabels}, {}), idx({kImages, 2}, {1, 2}), idx({kLabels, 3}, {1, 2}),
        idx({kLabels, 1}, {1, 2}), idx({kLabels, 0}, {}), idx({kLabels, kMost}, {1})}) {
    CAPTURE(bytes);
    CHECK(labels(bytes).starts_with("some/file: "));
  }
  CHECK(peak_memory() - peak_before < kLittle);  // 1024 images of 512 x 512 take 256 MiB
  const std::string unequal = error_of([] {
    IdxDataset(FileBytes(kPlain), FileBytes(idx({kLabels, 3}, {1, 2, 3})), "some/i", "some/l");
  });
  CHECK(unequal == "some/i: 2 images, but 3 labels in some/l");
}

TEST_CASE("a compressed file is unpacked no further than its header promises") {
  if (world().rank() != 0) return;
  // 2 images of 2 x 3 pixels and 256 MiB of zeros, compressed to 1.1 MB.
  Bytes bomb(2U << 20);
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  stream.next_out = bomb.data();
  stream.avail_out = static_cast<uInt>(bomb.size());
  Bytes plain = kPlain;
  for (int i = 0; i < 256; ++i) {
    stream.next_in = plain.data();
    stream.avail_in = static_cast<uInt>(plain.size());
    deflate(&stream, i == 255 ? Z_FINISH : Z_NO_FLUSH);
    plain.assign(1U << 20, 0);
  }
  bomb.resize(stream.total_out);
  deflateEnd(&stream);
  const TemporaryFile file(bomb);
  const long before = peak_memory();
  const std::string said =
      error_of([&] { parse_idx_images(open_file(file.path, idx_length).span(), "some/file"); });
  CHECK(said == "some/file: too long: the header promises 28 bytes, but more follow");
  CHECK(peak_memory() - before < kLittle);
}

TEST_CASE("a plain file is mapped; a compressed file or a pipe is loaded") {
  const TemporaryFile plain(kPlain), packed(kPacked), empty;
  const FileBytes mapped = open_file(plain.path, idx_length);
  CHECK(mapped.mapped());
  CHECK(copy_of(mapped.span()) == kPlain);
  CHECK_FALSE(open_file(packed.path, idx_length).mapped());
  CHECK_FALSE(open_file(empty.path, idx_length).mapped());

  const TemporaryFile labels(idx({kLabels, 2}, {3, 8}));
  std::optional<IdxDataset> data;
  {
    IdxDataset made(open_file(plain.path, idx_length), open_file(labels.path, idx_length),
                    "images", "labels");
    data.emplace(std::move(made));  // after the move, its spans must still be valid
  }
  std::filesystem::remove(plain.path);  // the mapping keeps the data alive
  std::vector<float> row(6);
  CHECK(data->get(1, row) == 8);
  CHECK(row[1] == 254.0F / 255);

  const TemporaryFile name;
  std::filesystem::remove(name.path);
  if (::mkfifo(name.path.c_str(), 0600) == 0) {
    std::thread writer([&] {
      std::ofstream(name.path, std::ios::binary)
          .write(reinterpret_cast<const char*>(kPlain.data()),
                 static_cast<std::streamsize>(kPlain.size()));
    });
    const FileBytes piped = open_file(name.path, idx_length);
    writer.join();
    CHECK_FALSE(piped.mapped());
    CHECK(copy_of(piped.span()) == kPlain);
  }
}

TEST_CASE("a data set larger than memory can be opened, and only what is read uses memory") {
  // A sparse file with 64 GiB of pixels: 2^16 images of 1024 x 1024.
  constexpr std::uint32_t kCount = 1U << 16, kSide = 1024;
  const TemporaryFile images(idx({kImages, kCount, kSide, kSide}, {}));
  const TemporaryFile labels(idx({kLabels, kCount}, Bytes(kCount, 4)));
  std::error_code problem;
  std::filesystem::resize_file(images.path, 16 + std::uintmax_t{kCount} * kSide * kSide,
                               problem);
  if (!all_ranks(!problem)) {
    std::cout << "skipped: cannot make a file of 64 GiB: " << problem.message() << '\n';
    return;
  }
  {
    std::fstream file(images.path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x33');  // 51
  }
  const long before = peak_memory();
  const IdxDataset data(open_file(images.path, idx_length), open_file(labels.path, idx_length),
                        "images", "labels");
  CHECK(data.size() == kCount);
  std::vector<float> row(std::size_t{kSide} * kSide);
  CHECK(data.get(kCount - 1, row) == 4);
  CHECK(row.back() == 51.0F / 255);
  CHECK(row.front() == 0);
  CHECK(data.get(kCount / 2, row) == 4);
  CHECK(row.back() == 0);
  CHECK(peak_memory() - before < kLittle);
  // A file that is one byte too short is refused before anything is read.
  std::filesystem::resize_file(images.path, 15 + std::uintmax_t{kCount} * kSide * kSide);
  CHECK(contains(
      error_of([&] { parse_idx_images(open_file(images.path, idx_length).span(), "big"); }),
      "big: truncated: the header promises 68719476752 bytes, but the file has 68719476751"));
}

TEST_CASE("a label that changes after the file was opened is refused") {
  const TemporaryFile labels(idx({kLabels, 2}, {3, 8}));
  const IdxDataset data(FileBytes(kPlain), open_file(labels.path, idx_length), "images",
                        "some/labels");
  std::vector<float> row(6);
  CHECK(data.get(0, row) == 3);
  {
    std::fstream file(labels.path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8);
    file.put('\x09');
  }
  CHECK(contains(error_of([&] { data.get(0, row); }), "some/labels: changed while in use"));
  CHECK(data.get(1, row) == 8);
}

TEST_CASE("rendered digits have the same bytes everywhere, and ten classes of equal size") {
  const DigitFiles files = render_digits(1000, 0);
  CHECK(hash_of(joined(files.images, files.labels)) ==
        "d88db258b7a739d80fcd0308200a7fffe1e0487293c027cb3e6b8e680d92bee4");
  CHECK(render_digits(50, 1).images != render_digits(50, 0).images);
  const IdxImages images = parse_idx_images(files.images, "digits");
  CHECK(images.count == 1000);
  CHECK(images.rows == 28);
  CHECK(images.columns == 28);
  const Bytes labels = copy_of(parse_idx_labels(files.labels, "digits"));
  for (std::uint8_t digit = 0; digit < 10; ++digit) {
    CHECK(std::ranges::count(labels, digit) == 100);
  }
  const IdxDataset data = digits_dataset(1000, 0);
  CHECK(data.size() == 1000);
  CHECK(data.classes() == 10);
}

TEST_CASE("reading MNIST's own files gives ten thousand digits") {
  const std::string folder = std::string(SOURCE_DIR) + "/../shared/data/mnist-10k";
  if (!all_ranks(std::filesystem::is_directory(folder))) {
    std::cout << "skipped: no MNIST in " << folder << '\n';
    return;
  }
  const auto path = [&](const char* name) { return folder + "/t10k-" + name + "-ubyte.gz"; };
  const IdxDataset data(open_file(path("images-idx3"), idx_length),
                        open_file(path("labels-idx1"), idx_length), "images", "labels");
  CHECK(data.size() == 10'000);
  CHECK(data.features() == 784);
  CHECK(data.classes() == 10);
  std::vector<std::int32_t> first;
  std::vector<float> row(784);
  for (std::size_t i = 0; i < 10; ++i) first.push_back(data.get(i, row));
  CHECK(first == std::vector<std::int32_t>{7, 2, 1, 0, 4, 1, 4, 9, 5, 9});
}
