// Lesson 4: damaged IDX files. 20000 of them per rank; as many as you like with
//   DIST_FUZZ_COUNT=1000000 build/tests/lesson04_test "damaged files*"
#include "04_distributed_sampler/datasets/idx_dataset.hpp"
#include "tests/support/idx_files.hpp"

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

std::uint64_t big_endian(const Bytes& bytes, std::size_t at) {
  return std::uint64_t{bytes[at]} * 0x1000000 + bytes[at + 1] * 0x10000U +
         bytes[at + 2] * 256U + bytes[at + 3];
}

// Whether `bytes` are a whole IDX file with this magic and so many numbers in its header.
bool is_whole(const Bytes& bytes, std::uint32_t magic, std::size_t numbers) {
  const std::size_t header = 4 + 4 * numbers;
  if (bytes.size() <= header || big_endian(bytes, 0) != magic) return false;
  // Divided step by step: a product would overflow.
  std::uint64_t left = bytes.size() - header;
  for (std::size_t i = 0; i < numbers; ++i) {
    const std::uint64_t number = big_endian(bytes, 4 + 4 * i);
    if (number == 0 || left % number != 0) return false;
    left /= number;
  }
  return left == 1;
}

// One damage to a file: a bit, a byte, a number of the header, its length.
void damage(Bytes& bytes, std::mt19937& random) {
  constexpr std::uint32_t kTelling[] = {
      0,       1,     2,     3,          255,        256,       0x7fff,     0xffff,
      0x10000, 0x801, 0x803, 0x7fffffff, 0x80000000, 0xfffffff, 0xfffffffe, ~0U};
  const auto below = [&](std::size_t limit) { return limit == 0 ? 0 : random() % limit; };
  switch (random() % 7) {
    case 0:
      if (!bytes.empty())
        bytes[below(bytes.size())] ^= static_cast<std::uint8_t>(1U << below(8));
      break;
    case 1:
      if (!bytes.empty()) bytes[below(bytes.size())] = static_cast<std::uint8_t>(random());
      break;
    case 2:  // a number of the header, telling or random
    case 3: {
      const std::size_t at = 4 * below(4);
      const std::uint32_t number = below(2) == 0 ? kTelling[below(std::size(kTelling))]
                                                 : static_cast<std::uint32_t>(below(40));
      if (bytes.size() < at + 4) break;
      for (std::size_t i = 0; i < 4; ++i) {
        bytes[at + i] = static_cast<std::uint8_t>(number >> (24 - 8 * i));
      }
      break;
    }
    case 4: bytes.resize(below(bytes.size() + 1)); break;
    case 5: bytes.resize(bytes.size() + below(20), static_cast<std::uint8_t>(random())); break;
    case 6: {  // a piece of the file comes twice
      const std::size_t begin = below(bytes.size() + 1);
      const Bytes piece(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.end());
      if (bytes.size() < 4096) bytes.insert(bytes.end(), piece.begin(), piece.end());
      break;
    }
  }
}

std::size_t fuzz_count() {
  const char* const wanted = std::getenv("DIST_FUZZ_COUNT");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 20'000;
}

}  // namespace

TEST_CASE("damaged files are refused in a sentence, or are whole, and cost no memory") {
  const Bytes labels = idx({kLabels, 5}, {4, 0, 9, 1, 1});
  const Bytes seeds[] = {kPlain,
                         labels,
                         kPacked,
                         joined(kPacked, kPacked),
                         idx({kImages, 1, 1, 1}, {7}),
                         idx({kLabels, 1}, {0})};
  std::mt19937 random(static_cast<unsigned>(world().rank() + 1));
  const std::size_t count = fuzz_count();
  const long before = peak_memory();
  std::size_t refused = 0, whole = 0, unpacked = 0, wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Bytes bytes = seeds[random() % std::size(seeds)];
    for (auto times = random() % 4 + 1; times > 0; --times) damage(bytes, random);
    // What open_file does with the bytes of a file.
    if (bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) {
      try {
        bytes = gunzip(bytes, "some/file", idx_length);
        ++unpacked;
      } catch (const Error& error) {
        ++refused;
        if (!std::string(error.what()).starts_with("some/file: ")) ++wrong;
        continue;
      }
    }
    // Both readings, because files get mixed up.
    bool taken = false;
    try {
      const IdxImages images = parse_idx_images(bytes, "some/file");
      taken = true;
      if (!is_whole(bytes, kImages, 3)) ++wrong;
      const IdxDataset data(FileBytes(bytes),
                            FileBytes(idx({kLabels, static_cast<std::uint32_t>(images.count)},
                                          Bytes(images.count, 1))),
                            "i", "l");
      std::vector<float> row(data.features());
      for (std::size_t sample = 0; sample < data.size(); ++sample) data.get(sample, row);
      const std::size_t last = bytes.size() - 1;
      if (row.back() != static_cast<float>(bytes[last]) / 255.0F) ++wrong;
    } catch (const Error& error) {
      if (is_whole(bytes, kImages, 3)) ++wrong;
      if (!std::string(error.what()).starts_with("some/file: ")) ++wrong;
    }
    try {
      const Bytes got = copy_of(parse_idx_labels(bytes, "some/file"));
      taken = true;
      if (!is_whole(bytes, kLabels, 1) || got != Bytes(bytes.begin() + 8, bytes.end())) ++wrong;
    } catch (const Error& error) {
      if (is_whole(bytes, kLabels, 1)) ++wrong;
      if (!std::string(error.what()).starts_with("some/file: ")) ++wrong;
    }
    ++(taken ? whole : refused);
  }
  CHECK(wrong == 0);
  CHECK(refused + whole == count);
  if (count >= 1000) {  // the damage reaches every branch
    CHECK(refused > count / 4);
    CHECK(whole > count / 100);
    CHECK(unpacked > count / 200);
  }
  CHECK(peak_memory() - before < kLittle);
}
