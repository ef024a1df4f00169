// IDX: a plain file is accepted if and only if it is as long as its header says. A compressed
// one may be damaged in any way.
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const View bytes(data, size);
  write_file("input", bytes);
  const bool packed = size >= 2 && data[0] == 0x1f && data[1] == 0x8b;  // gzip
  for (const std::size_t dimensions : {3, 1}) {
    const bool accepted = accepts("input", [&] {
      const IdxFile file = read_idx("input", dimensions);
      require(packed || std::ranges::equal(file.bytes, bytes.subspan(4 + 4 * dimensions)),
              "the bytes are as stored");
    });
    const auto magic = static_cast<std::uint32_t>(0x800 + dimensions);
    require(packed || accepted == is_whole(bytes, magic, dimensions),
            "complete files are accepted, and no others");
  }
  return 0;
}
