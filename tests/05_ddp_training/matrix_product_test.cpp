// The matrix product, compared with plain loops.
#include "01_send_recv/tracer_numbers.hpp"
#include "05_ddp_training/model/gemm.hpp"
#include "common/check.hpp"
#include "tests/support/mpi_test.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

using namespace dist;
using dist::test::kNaN;

// Small whole numbers, different in every row and column. Their products and sums are exact, so
// every order of addition gives the same bits, and an element in the wrong place is visible.
static Tensor whole_numbers(Shape shape, std::uint32_t salt) {
  Tensor tensor(std::move(shape), Device{});
  std::uint32_t state = 12345U + salt;
  for (float& value : tensor.span()) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int>(state >> 28) - 8);
  }
  return tensor;
}

TEST_CASE("gemm multiplies every shape with every combination of transposes", "[one process]") {
  const auto t = [](bool yes) { return yes ? Transpose::yes : Transpose::no; };
  const Stream one(Device{}), two(Device{}, 2);
  // From {16, 512, 512} on, the sizes are those of real layers, where gemm chooses between two
  // oneDNN products; the one after it is just below the size at which the choice changes.
  const std::vector<std::array<std::size_t, 3>> shapes{
      {1, 1, 1},      {3, 5, 7},      {17, 33, 65},  {1, 9, 4},      {9, 1, 4},
      {0, 3, 2},      {3, 0, 2},      {3, 2, 0},     {16, 512, 512}, {15, 512, 600},
      {33, 301, 500}, {64, 10, 7000}, {300, 40, 400}};
  for (const auto& [m, n, k] : shapes) {
    for (int variant = 0; variant < 4; ++variant) {
      const bool flip_a = (variant & 1) != 0, flip_b = (variant & 2) != 0;
      const Tensor a = whole_numbers(flip_a ? Shape{k, m} : Shape{m, k}, 1);
      const Tensor b = whole_numbers(flip_b ? Shape{n, k} : Shape{k, n}, 2);
      const Tensor before = whole_numbers({m, n}, 3);
      std::vector<float> sums(m * n);
      for (std::size_t at = 0; at < m * n; ++at) {
        const std::size_t i = at / n, j = at % n;
        for (std::size_t l = 0; l < k; ++l) {
          sums[at] += a.span()[flip_a ? l * m + i : i * k + l] *
                      b.span()[flip_b ? j * k + l : l * n + j];
        }
      }
      for (const float beta : {0.0F, 1.0F, 0.25F}) {
        CAPTURE(m, n, k, flip_a, flip_b, beta);
        const auto wrong = [&](auto multiply) {
          const Tensor c({m, n}, Device{});
          copy(one, c, before);
          // With beta 0 the old contents must not be read: 0 * NaN would be NaN.
          if (beta == 0) std::ranges::fill(c.span(), kNaN);
          multiply(c);
          return count_wrong(c.span(), [&](std::size_t i) {
            return double{sums[i] + beta * before.span()[i]};
          });
        };
        for (const Stream* stream : {&one, &two}) {
          CHECK(wrong([&](const Tensor& c) {
                  gemm(*stream, t(flip_a), t(flip_b), a, b, beta, c);
                }) == 0);
        }
        CHECK(wrong([&](const Tensor& c) {
                gemm_reference(t(flip_a), t(flip_b), a, b, beta, c);
              }) == 0);
      }
      if (m * n * k == 0) continue;
      a.span()[0] = kNaN;  // 0 times NaN is NaN, so no product may skip zeros
      std::ranges::fill(b.span(), 0.0F);
      for (const bool plain : {false, true}) {
        const Tensor c({m, n}, Device{});
        if (plain) gemm_reference(t(flip_a), t(flip_b), a, b, 0, c);
        if (!plain) gemm(one, t(flip_a), t(flip_b), a, b, 0, c);
        CHECK(static_cast<std::size_t>(std::ranges::count_if(
                  c.span(), [](float value) { return std::isnan(value); })) == n);
      }
    }
  }
}

TEST_CASE("gemm refuses shapes that do not match", "[one process]") {
  const Stream stream(Device{});
  const auto no = Transpose::no, yes = Transpose::yes;
  struct Product {
    Transpose ta, tb;
    Shape a, b, c;
  };
  const auto multiply = [&](const Product& p) {
    gemm(stream, p.ta, p.tb, Tensor(p.a, Device{}), Tensor(p.b, Device{}), 0,
         Tensor(p.c, Device{}));
  };
  multiply({no, no, {2, 3}, {3, 4}, {2, 4}});  // fits
  for (const Product& mistake : std::vector<Product>{{yes, no, {2, 3}, {3, 4}, {2, 4}},
                                                     {no, yes, {2, 3}, {3, 4}, {2, 4}},
                                                     {no, no, {2, 3}, {3, 4}, {1, 4}},
                                                     {no, no, {2, 3}, {3, 4}, {2, 5}},
                                                     {no, no, {6}, {3, 4}, {2, 4}},
                                                     {no, no, {2, 3, 1}, {3, 4}, {2, 4}},
                                                     {no, no, {2, 3}, {4, 4}, {2, 4}}}) {
    CHECK_THROWS_AS(multiply(mistake), Error);
  }
}
