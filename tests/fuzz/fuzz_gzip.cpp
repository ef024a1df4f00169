// gzip: what open_file accepts is what zlib's own gzread finds, complete to the last checksum.
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
  require(accepted || packed, "a plain file is accepted, whatever it holds");
  if (packed) {
    accepts("input", [] {
      const FileBytes file = open_file("input", idx_length);
      const std::uint64_t promised = idx_length(file.span());
      require(file.span().size() <= promised || file.span().size() - promised <= 1 << 16,
              "no more is unpacked than the header promises, and a block");
    });
  }
  if (!accepted) return 0;
  // gzread takes plain files as they are, and ignores what follows the last stream.
  std::vector<std::uint8_t> expected(content.size() + 1);
  const gzFile file = gzopen("input", "rb");
  const int count = gzread(file, expected.data(), static_cast<unsigned>(expected.size()));
  require(gzclose(file) == Z_OK, "what is accepted is complete");
  expected.resize(static_cast<std::size_t>(std::max(count, 0)));
  require(content == expected, "what is accepted is unpacked to the byte");
  return 0;
}
