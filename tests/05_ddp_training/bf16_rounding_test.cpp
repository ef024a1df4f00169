// Rounding to bfloat16.
#include "05_ddp_training/model/bf16.hpp"
#include "tests/support/device_numbers.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using namespace dist;
using namespace dist::test;

// The Bf16 nearest to `value`, found by trying the numbers around it.
static std::uint16_t nearest(float value) {
  const auto below = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  const auto above = static_cast<std::uint16_t>(below + 1);  // further away from 0
  // Rounding goes on as if the exponent had no limit: after the largest number comes 2^128.
  const auto place = [](std::uint16_t bits) {
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    return (bits & 0x7fff) == 0x7f80 ? sign * std::ldexp(1.0, 128) : double{to_float({bits})};
  };
  const double to_below = std::abs(static_cast<double>(value) - place(below));
  const double to_above = std::abs(place(above) - static_cast<double>(value));
  if (to_below == to_above) return below % 2 == 0 ? below : above;
  return to_below < to_above ? below : above;
}

TEST_CASE("every float32 is rounded to the nearest bfloat16, ties to even",
          "[gpu][one process]") {
  Floats values;
  std::vector<std::uint16_t> want;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const auto value = std::bit_cast<float>(upper << 16 | lower);
      if (!std::isfinite(value)) continue;
      values.push_back(value);
      want.push_back(nearest(value));
    }
  }
  REQUIRE(values.size() == 6 * (0x10000 - 2 * 0x80));
  for (const Device device : devices()) {
    const Stream stream(device);
    Operands operands(Precision::bf16);
    const Operand operand = operands.of(stream, 0, upload(stream, values));
    std::vector<std::uint16_t> got(values.size());
    copy_bytes(stream, got.data(), operand.rounded, operands.size_bytes());
    stream.synchronize();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < want.size(); ++i) wrong += got[i] == want[i] ? 0 : 1;
    CHECK(wrong == 0);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(to_float(to_bf16(infinity)) == infinity);
  CHECK(to_float(to_bf16(-infinity)) == -infinity);
  for (const std::uint32_t bits : {0x7f800001U, 0x7fc00000U, 0x7fffffffU, 0xffffffffU}) {
    CHECK(std::isnan(to_float(to_bf16(std::bit_cast<float>(bits)))));
  }
}
