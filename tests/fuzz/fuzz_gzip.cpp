// gzip: if open_file accepts a file, zlib's gzread accepts it too, including the last checksum,
// and unpacks the same bytes.
#include "04_distributed_sampler/datasets/idx_dataset.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <zlib.h>

#include <vector>

using namespace dist;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  write_file("input", {data, size});
  std::vector<std::uint8_t> content;
  const bool accepted = accepts("input", [&] {
    const FileBytes file = open_file("input", [](View) { return ~std::uint64_t{0}; });
    content.assign(file.span().begin(), file.span().end());
  });
  const bool packed = size >= 2 && data[0] == 0x1f && data[1] == 0x8b;
  require(accepted || packed, "a plain file is always accepted");
  if (packed) {
    accepts("input", [] {
      const FileBytes file = open_file("input", idx_length);
      const std::uint64_t promised = idx_length(file.span());
      require(file.span().size() <= promised || file.span().size() - promised <= 1 << 16,
              "at most one block more than the header promises is unpacked");
    });
  }
  if (!accepted) return 0;
  // gzread returns plain files unchanged, and ignores any bytes after the last stream.
  std::vector<std::uint8_t> expected(content.size() + 1);
  const gzFile file = gzopen("input", "rb");
  const int count = gzread(file, expected.data(), static_cast<unsigned>(expected.size()));
  require(gzclose(file) == Z_OK, "an accepted file is complete");
  expected.resize(static_cast<std::size_t>(std::max(count, 0)));
  require(content == expected, "an accepted file is unpacked correctly");
  return 0;
}
