// IDX files (MNIST's format) written by hand, and a limit on the memory that reading them
// takes.
#pragma once

#include <cstdint>
#include <sys/resource.h>
#include <vector>

namespace dist::test {

using Bytes = std::vector<std::uint8_t>;

// The bytes of an IDX file whose header holds `numbers`, followed by `rest`.
inline Bytes idx(const std::vector<std::uint32_t>& numbers, const Bytes& rest) {
  Bytes bytes;
  for (const std::uint32_t number : numbers) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<std::uint8_t>(number >> shift));
    }
  }
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

inline Bytes joined(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

constexpr std::uint32_t kImages = 0x803, kLabels = 0x801;

inline const Bytes kPixels{0, 1, 51, 102, 153, 204, 255, 254, 128, 7, 9, 200};
// A file with two images of 2 x 3 pixels, and the same file compressed with `gzip -9`.
inline const Bytes kPlain = idx({kImages, 2, 2, 3}, kPixels);
inline const Bytes kPacked{0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x63,
                           0x60, 0xe0, 0x60, 0x66, 0x60, 0x60, 0x60, 0x82, 0x62, 0x66, 0x06,
                           0x46, 0xe3, 0xb4, 0x99, 0x67, 0xfe, 0xff, 0x6b, 0x60, 0xe7, 0x3c,
                           0x01, 0x00, 0x07, 0x41, 0x6c, 0x84, 0x1c, 0x00, 0x00, 0x00};

// The peak memory use of this process so far, in MiB.
inline long peak_memory() {
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

}  // namespace dist::test
