// What this file adds: bfloat16, the upper half of a float32. It has the same range, and 8
// significant bits instead of 24.
#pragma once

#include "common/stream.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace dist {

// The bits of a bfloat16 number. nvcc and the libraries have types of their own for it.
struct Bf16 {
  std::uint16_t bits;
};

// The nearest bfloat16; of two equally near ones, the one whose last bit is 0, as IEEE 754
// rounds. What exceeds the largest one becomes infinite.
constexpr Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // Rounding could carry a NaN into the sign, so a NaN is cut off instead, with a bit set that
  // keeps it a NaN.
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  return {static_cast<std::uint16_t>((is_nan ? bits | 0x400000U : rounded) >> 16)};
}

// Exact.
constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// rounded[i] = x[i] as bfloat16. Queued on `stream`; both are in its device's memory.
void round_to_bf16(const Stream& stream, std::size_t count, const float* x, Bf16* rounded);

}  // namespace dist
