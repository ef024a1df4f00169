// What this file adds: bfloat16, and the matrices of a model as its products read them. With
// --precision fp32 these are the matrices themselves, with bf16 rounded copies.
#pragma once

#include "common/buffer.hpp"
#include "common/tensor.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace dist {

// The bits of a bfloat16 number: the upper half of a float32. It has the same range, and 8
// significant bits instead of 24. nvcc and the libraries have types of their own for it.
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

// rounded[i] = to_bf16(x[i]). Queued on `stream`, in its device's memory (kernels.cpp).
void round_to_bf16(const Stream& stream, std::size_t count, const float* x, Bf16* rounded);

// Exact.
constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// A matrix as an operand of a product.
struct Operand {
  // NOLINTNEXTLINE(google-explicit-constructor): any matrix can be an operand.
  Operand(Tensor its_matrix, const Bf16* its_copy = nullptr)
      : matrix(std::move(its_matrix)), rounded(its_copy) {}

  Tensor matrix;
  const Bf16* rounded;  // the same numbers rounded, or null
};
inline bool are_rounded(const Operand& a, const Operand& b) {
  return a.rounded != nullptr && b.rounded != nullptr;
}
// What a product reads: the rounded copy if `is_rounded` (are_rounded), else the matrix.
inline const void* data_of(const Operand& operand, bool is_rounded) {
  return is_rounded ? static_cast<const void*>(operand.rounded) : operand.matrix.data();
}

enum class Precision { fp32, bf16 };

class Operands {
 public:
  explicit Operands(Precision precision) : precision_(precision) {}

  // `matrix` as an operand of products on `stream`, on whose device it is. A rounded copy is
  // kept in place `place`, until the next call with the same place.
  Operand of(const Stream& stream, std::size_t place, const Tensor& matrix) {
    if (precision_ == Precision::fp32) return matrix;
    if (copies_.size() <= place) copies_.resize(place + 1);
    Buffer<Bf16>& copy = copies_[place];
    if (copy.size() < matrix.numel()) {
      if (!stream.device().is_cpu() && copy.size() > 0) outgrown_.push_back(std::move(copy));
      copy = Buffer<Bf16>(matrix.numel(), stream.device());
    }
    round_to_bf16(stream, matrix.numel(), matrix.data(), copy.data());
    return {matrix, copy.data()};
  }

  // The size of the copies in use.
  std::size_t size_bytes() const {
    std::size_t bytes = 0;
    for (const Buffer<Bf16>& copy : copies_) bytes += copy.size_bytes();
    return bytes;
  }

 private:
  Precision precision_;
  std::vector<Buffer<Bf16>> copies_;    // by place
  std::vector<Buffer<Bf16>> outgrown_;  // captured steps (StepGraph) still use these
};

}  // namespace dist
