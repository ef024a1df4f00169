// The bytes of IDX files, written out.
#pragma once

#include <cstdint>
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

inline constexpr std::uint32_t kImages = 0x803, kLabels = 0x801;

}  // namespace dist::test
