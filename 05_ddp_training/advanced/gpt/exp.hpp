// What this file adds: an exp for loops on the CPU, where std::exp is a call for one number at
// a time. GELU takes it of each hidden number, and attention of each of its shares.
#pragma once

#include "common/device.hpp"

#include <bit>
#include <cmath>
#include <cstdint>

namespace dist::gpt {

// exp(x) with a relative error of 1e-7 at most for x from -87 to 88; outside, that of the
// nearest end. NaN stays NaN. With k = round(x / ln 2) and r = x - k ln 2,
//   exp(x) = 2^k exp(r)
// where exp(r) is a polynomial, and 2^k is written into a float's exponent (Cephes, expf).
DIST_HOST_DEVICE inline float exp_of(float x) {
  const float limited = x < -87.0F ? -87.0F : x > 88.0F ? 88.0F : x;
  const float k = std::floor(std::fma(limited, 1.44269504F, 0.5F));
  // ln 2 in two parts, so that k times the first one is exact.
  const float r = std::fma(k, 2.12194440e-4F, std::fma(k, -0.693359375F, limited));
  float y = 1.9875691500e-4F;
  y = std::fma(y, r, 1.3981999507e-3F);
  y = std::fma(y, r, 8.3334519073e-3F);
  y = std::fma(y, r, 4.1665795894e-2F);
  y = std::fma(y, r, 1.6666665459e-1F);
  y = std::fma(y, r, 5.0000001201e-1F);
  y = std::fma(y * r, r, r) + 1.0F;
  const auto exponent = static_cast<std::int32_t>(k == k ? k : 0.0F);  // NaN has no integer
  return y * std::bit_cast<float>((exponent + 127) << 23);
}

}  // namespace dist::gpt
