// This file is compiled with -ffp-contract=off, so that every operation below rounds once.
// Where PyTorch's kernels fuse a multiply with an add, the code calls std::fma. If the compiler
// fused other operations too, about half of a layer's weights would change in their last bit.
#include "common/random.hpp"

#include "common/check.hpp"

#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace dist {

std::uint64_t Generator::next_u64() {
  const std::uint64_t high = next_u32();
  return (high << 32) | next_u32();
}

std::vector<std::size_t> randperm(std::size_t n, Generator& generator) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = 0; i + 1 < n; ++i) {
    std::swap(order[i], order[i + generator.next_u32() % (n - i)]);
  }
  return order;
}

std::vector<std::int64_t> randint(std::int64_t low, std::int64_t high, std::size_t count,
                                  Generator& generator) {
  if (low >= high) throw Error("randint: low must be below high");
  const std::uint64_t width =
      static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  std::vector<std::int64_t> values(count);
  for (std::int64_t& value : values) {
    // PyTorch accepts the small bias of a plain remainder, so this code must accept it too.
    const std::uint64_t draw = width >> 32 != 0 ? generator.next_u64() : generator.next_u32();
    value = static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + draw % width);
  }
  return values;
}

void fill_uniform(std::span<float> values, double low, double high, Generator& generator) {
  const auto from = static_cast<float>(low);
  const float range = static_cast<float>(high) - from;
  for (float& value : values) {
    const float unit = static_cast<float>(generator.next_u32() & 0xffffffU) * 0x1p-24F;
    value = std::fma(unit, range, from);
  }
}

// Fewer than 16 elements: Box-Muller in doubles, in pairs (core/DistributionsHelper.h).
static void fill_normal_in_pairs(std::span<float> values, Generator& generator) {
  constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 53) - 1;
  const auto unit = [&] {
    return static_cast<double>(generator.next_u64() & kMantissa) * 0x1p-53;
  };
  for (float& value : values) {
    if (generator.cached_normal) {
      value = static_cast<float>(*std::exchange(generator.cached_normal, std::nullopt));
      continue;
    }
    const double angle = 2.0 * std::numbers::pi * unit();
    const double radius = std::sqrt(-2.0 * std::log(1.0 - unit()));
    generator.cached_normal = radius * std::sin(angle);
    value = static_cast<float>(radius * std::cos(angle));
  }
}

// 16 or more elements: PyTorch's AVX2 kernel, whose log, sin and cos are single-precision
// polynomials (constants from Cephes, as in native/cpu/avx_mathfun.h). With libm's functions,
// results would differ from PyTorch's by up to 5e-4 near the zeros of sine and cosine.

static constexpr float constant(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

// x in (0, 1].
static float log_polynomial(float x) {
  constexpr float kLog2High = 0.693359375F, kLog2Low = constant(0xb95e8083);
  constexpr float kSqrtHalf = constant(0x3f3504f3);
  constexpr float kPolynomial[] = {
      constant(0x3d9021bb), constant(0xbdebd1b8), constant(0x3def251a),
      constant(0xbdfe5d4f), constant(0x3e11e9bf), constant(0xbe2aae50),
      constant(0x3e4cceac), constant(0xbe7ffffc), constant(0x3eaaaaaa)};
  const auto bits = std::bit_cast<std::uint32_t>(x);
  float exponent = static_cast<float>(static_cast<int>(bits >> 23) - 127) + 1.0F;
  float m = constant((bits & 0x007fffffU) | 0x3f000000U);  // 0.5 <= m < 1
  if (m < kSqrtHalf) {
    exponent -= 1.0F;
    m = (m - 1.0F) + m;
  } else {
    m -= 1.0F;
  }
  const float square = m * m;
  float y = kPolynomial[0];
  for (std::size_t k = 1; k < std::size(kPolynomial); ++k) y = std::fma(y, m, kPolynomial[k]);
  y = y * m;
  y = std::fma(y, square, exponent * kLog2Low);
  y = y - square * 0.5F;
  m = m + y;
  return std::fma(exponent, kLog2High, m);
}

// t >= 0.
static std::pair<float, float> sin_cos_polynomial(float t) {
  constexpr float kFourOverPi = constant(0x3fa2f983);
  // `octant` is t / (pi / 4), rounded up to an even integer, and x is t - octant * pi / 4.
  const int octant = (static_cast<int>(t * kFourOverPi) + 1) & ~1;
  const auto y = static_cast<float>(octant);
  float x = std::fma(y, -0.78515625F, t);
  x = std::fma(y, constant(0xb97da000), x);
  x = std::fma(y, constant(0xb3222169), x);
  const float z = x * x;
  float c = std::fma(constant(0x37ccf5ce), z, constant(0xbab6061a));
  c = std::fma(c, z, constant(0x3d2aaaa5));
  c = std::fma(c * z, z, -(z * 0.5F)) + 1.0F;
  float s = std::fma(constant(0xb94ca1f9), z, constant(0x3c08839e));
  s = std::fma(s, z, constant(0xbe2aaaa3));
  s = std::fma(s * z, x, x);
  const bool swap = (octant & 2) != 0;
  const bool negative = (octant & 4) != 0;
  const float sine = swap ? c : s, cosine = swap ? s : c;
  return {negative ? -sine : sine, negative != swap ? -cosine : cosine};
}

static void uniform_to_normal(std::span<float, 16> block) {
  constexpr float kTwoPi = constant(0x40c90fdb);
  for (std::size_t k = 0; k < 8; ++k) {
    const float radius = std::sqrt(-2.0F * log_polynomial(1.0F - block[k]));
    const auto [sine, cosine] = sin_cos_polynomial(kTwoPi * block[k + 8]);
    block[k] = radius * cosine;
    block[k + 8] = radius * sine;
  }
}

static void fill_normal_in_blocks(std::span<float> values, Generator& generator) {
  fill_uniform(values, 0.0, 1.0, generator);
  const std::size_t n = values.size();
  for (std::size_t begin = 0; begin + 16 <= n; begin += 16) {
    uniform_to_normal(values.subspan(begin).first<16>());
  }
  if (n % 16 != 0) {
    // The kernel works on whole blocks, so it draws all of the last 16 elements again,
    // including those that were already finished.
    const auto last = values.last<16>();
    fill_uniform(last, 0.0, 1.0, generator);
    uniform_to_normal(last);
  }
}

void fill_normal(std::span<float> values, Generator& generator) {
  if (values.size() < 16) {
    fill_normal_in_pairs(values, generator);
  } else {
    fill_normal_in_blocks(values, generator);
  }
}

void init_linear(std::span<float> weight, std::span<float> bias, std::size_t inputs,
                 Generator& generator) {
  const auto in = static_cast<double>(inputs);
  // kaiming_uniform_ with a = sqrt(5): its gain is sqrt(2 / (1 + a^2)), its bound sqrt(3) std.
  const double gain = std::sqrt(2.0 / (1.0 + std::sqrt(5.0) * std::sqrt(5.0)));
  const double weight_bound = std::sqrt(3.0) * (gain / std::sqrt(in));
  const double bias_bound = 1.0 / std::sqrt(in);
  fill_uniform(weight, -weight_bound, weight_bound, generator);
  fill_uniform(bias, -bias_bound, bias_bound, generator);
}

}  // namespace dist
