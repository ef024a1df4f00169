// What differs for tensors as large as real layers: gemm chooses between two oneDNN products,
// and memory comes in huge pages. tensor_test.cpp covers small and odd shapes.
#include "05_ddp_training/model/gemm.hpp"
#include "common/buffer.hpp"
#include "common/stream.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

using namespace dist;

namespace {

// Small whole numbers, different in every row and column. Their products and sums are exact, so
// every order of addition gives the same bits, and an element in the wrong place is visible.
Tensor whole_numbers(std::size_t rows, std::size_t columns, int salt) {
  Tensor tensor({rows, columns}, Device{});
  std::uint32_t state = 12345U + static_cast<std::uint32_t>(salt);
  for (float& value : tensor.span()) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int>(state >> 28) - 8);
  }
  return tensor;
}

}  // namespace

TEST_CASE("gemm is exact on whole numbers, at the sizes of real layers") {
  const auto t = [](bool yes) { return yes ? Transpose::yes : Transpose::no; };
  const Stream one(Device{}), two(Device{}, 2);
  // The second shape is just below the size at which the choice changes. The third is not
  // square.
  for (const auto& [m, n, k] : std::vector<std::array<std::size_t, 3>>{
           {16, 512, 512}, {15, 512, 600}, {33, 301, 500}, {64, 10, 7000}, {300, 40, 400}}) {
    for (int variant = 0; variant < 4; ++variant) {
      const bool flip_a = (variant & 1) != 0, flip_b = (variant & 2) != 0;
      const Tensor a = flip_a ? whole_numbers(k, m, 1) : whole_numbers(m, k, 1);
      const Tensor b = flip_b ? whole_numbers(n, k, 2) : whole_numbers(k, n, 2);
      const Tensor right({m, n}, Device{});
      gemm_reference(t(flip_a), t(flip_b), 1.0F, a, b, 0.0F, right);
      for (const auto& [alpha, beta] : {std::pair{1.0F, 0.0F}, {0.5F, 0.0F}, {1.0F, 1.0F}}) {
        for (const Stream* stream : {&one, &two}) {
          CAPTURE(m, n, k, flip_a, flip_b, alpha, beta, stream->threads());
          const Tensor c({m, n}, Device{});
          // With beta 0 the old contents must not be read.
          const float before = beta == 0.0F ? std::numeric_limits<float>::quiet_NaN() : 3.0F;
          std::ranges::fill(c.span(), before);
          gemm(*stream, t(flip_a), t(flip_b), alpha, a, b, beta, c);
          std::size_t wrong = 0;
          for (std::size_t i = 0; i < m * n; ++i) {
            const float want = alpha * right.span()[i] + (beta == 0.0F ? 0.0F : before);
            if (c.span()[i] != want) ++wrong;
          }
          CHECK(wrong == 0);
        }
      }
    }
  }
}

TEST_CASE("memory for large tensors is zeroed and starts on a huge-page boundary") {
  constexpr std::size_t kHugePage = 2U << 20;
  for (const std::size_t bytes :
       {kHugePage - 1, kHugePage, kHugePage + 1, 3 * kHugePage + 777}) {
    CAPTURE(bytes);
    const Buffer<unsigned char> buffer(bytes, Device{});
    const std::size_t begin = reinterpret_cast<std::uintptr_t>(buffer.data());
    CHECK(begin % (bytes < kHugePage ? 64 : kHugePage) == 0);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < bytes; ++i) wrong += buffer.data()[i] == 0 ? 0 : 1;
    CHECK(wrong == 0);
    buffer.data()[bytes - 1] = 1;
  }
}
