// Tests memory, tensors as views of memory, and the matrix product (against plain loops).
#include "01_send_recv/tracer_numbers.hpp"
#include "02_broadcast/random.hpp"
#include "05_ddp_training/model/gemm.hpp"
#include "common/buffer.hpp"
#include "common/check.hpp"
#include "common/tensor.hpp"
#include "tests/support/mpi_test.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

using namespace dist;
using dist::test::kMost;
using dist::test::kNaN;

TEST_CASE("memory is aligned and zeroed, even if it was used before") {
  for (const std::size_t count : {0, 1, 15, 16, 17, 1000, 100'003}) {
    CAPTURE(count);
    for (int round = 0; round < 3; ++round) {  // the heap reuses a freed block
      const Buffer<float> buffer(count, Device{});
      CHECK(buffer.size() == count);
      CHECK(buffer.size_bytes() == 4 * count);
      REQUIRE(buffer.data() != nullptr);
      CHECK(std::bit_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
      CHECK(count_wrong({buffer.data(), count}, [](std::size_t) { return 0.0; }) == 0);
      std::fill_n(buffer.data(), count, 7.5F);
    }
  }
  CHECK(Buffer<double>(3, Device{}).size_bytes() == 24);
  CHECK_THROWS_AS(allocate(kMost, Device{}), Error);
}

TEST_CASE("narrow, view and rows give access to the same numbers") {
  const Tensor whole({4, 6}, Device{});
  fill_tracer_numbers(whole.span(), 3);
  const Tensor part = whole.narrow(5, 3);
  const Tensor other = whole.view({2, 3, 4});
  const Tensor top = whole.rows(2);
  CHECK(part.shape() == Shape{3});
  CHECK(other.shape() == Shape{2, 3, 4});
  CHECK(top.shape() == Shape{2, 6});
  CHECK(part.span()[0] == tracer_number(3, 5));
  part.span()[1] = -1.0F;
  CHECK(whole.span()[6] == -1.0F);
  CHECK(other.span()[6] == -1.0F);
  CHECK(top.view({12}).narrow(6, 1).span()[0] == -1.0F);
  CHECK(to_host(Stream(Device{}), part) == std::vector<float>{3005.0F, -1.0F, 3007.0F});

  CHECK(whole.narrow(24, 0).numel() == 0);
  CHECK(whole.rows(0).shape() == Shape{0, 6});
  CHECK_THROWS_AS(whole.narrow(24, 1), Error);
  CHECK_THROWS_AS(whole.narrow(25, 0), Error);
  CHECK_THROWS_AS(whole.narrow(2, kMost), Error);  // 2 + kMost wraps around to 1
  CHECK_THROWS_AS(whole.view({5, 5}), Error);
  CHECK_THROWS_AS(whole.rows(5), Error);
  CHECK_THROWS_AS(copy(Stream(Device{}), part, top), Error);
  CHECK(to_string(Shape{64, 784}) == "(64, 784)");
}

TEST_CASE("a view keeps its memory alive") {
  auto owner = std::make_shared<std::vector<float>>(10, 2.5F);
  const std::weak_ptr<std::vector<float>> watch = owner;
  Tensor window =
      Tensor(owner, owner->data(), {10}, Device{}).narrow(3, 4).view({2, 2}).rows(1);
  owner.reset();
  CHECK_FALSE(watch.expired());
  window = Tensor();
  CHECK(watch.expired());
}

TEST_CASE("gemm multiplies every shape with every combination of transposes") {
  const auto t = [](bool yes) { return yes ? Transpose::yes : Transpose::no; };
  Generator generator(5);
  const auto random = [&](Shape shape) {
    Tensor tensor(std::move(shape), Device{});
    fill_uniform(tensor.span(), -1.0, 1.0, generator);
    return tensor;
  };
  const Stream one(Device{}), two(Device{}, 2);
  const std::vector<std::vector<std::size_t>> shapes{{1, 1, 1}, {3, 5, 7}, {17, 33, 65},
                                                     {1, 9, 4}, {9, 1, 4}, {0, 3, 2},
                                                     {3, 0, 2}, {3, 2, 0}};
  const std::vector<std::pair<float, float>> factors{{1, 0}, {0.5F, 0}, {-2, 1}, {1, 0.25F}};
  for (const auto& shape : shapes) {
    const std::size_t m = shape[0], n = shape[1], k = shape[2];
    for (int variant = 0; variant < 4; ++variant) {
      const bool flip_a = (variant & 1) != 0, flip_b = (variant & 2) != 0;
      const Tensor a = random(flip_a ? Shape{k, m} : Shape{m, k});
      const Tensor b = random(flip_b ? Shape{n, k} : Shape{k, n});
      for (const auto& [alpha, beta] : factors) {
        CAPTURE(m, n, k, flip_a, flip_b, alpha, beta);
        const Tensor before = random({m, n});
        // With beta 0 the old contents must not be read: 0 * NaN would be NaN.
        if (beta == 0) std::ranges::fill(before.span(), kNaN);
        const auto wrong = [&, alpha = alpha, beta = beta](const Tensor& c) {
          std::size_t count = 0;
          for (std::size_t at = 0; at < m * n; ++at) {
            const std::size_t i = at / n, j = at % n;
            double want = beta == 0 ? 0.0 : beta * double{before.span()[at]};
            for (std::size_t l = 0; l < k; ++l) {
              want += alpha * double{a.span()[flip_a ? l * m + i : i * k + l]} *
                      double{b.span()[flip_b ? j * k + l : l * n + j]};
            }
            if (!(std::abs(double{c.span()[at]} - want) < 1e-5)) ++count;
          }
          return count;
        };
        const Tensor c({m, n}, Device{});
        for (const Stream* stream : {&one, &two}) {
          copy(one, c, before);
          gemm(*stream, t(flip_a), t(flip_b), alpha, a, b, beta, c);
          CHECK(wrong(c) == 0);
        }
        copy(one, c, before);
        gemm_reference(t(flip_a), t(flip_b), alpha, a, b, beta, c);
        CHECK(wrong(c) == 0);
      }
    }
  }
}

TEST_CASE("a size that no machine's memory can hold is refused instead of wrapping around") {
  constexpr std::size_t kHuge = std::size_t{1} << 62;
  CHECK_THROWS_AS(Buffer<double>(kHuge / 2 + 1, Device{}), Error);
  CHECK_THROWS_AS(Tensor({kHuge}, Device{}), Error);
  CHECK_THROWS_AS(Tensor({kHuge, 8}, Device{}), Error);
  CHECK_THROWS_AS(Buffer<char>(kHuge, Device{}), Error);
}

TEST_CASE("gemm refuses shapes that do not match") {
  const Stream stream(Device{});
  const auto multiply = [&](Transpose ta, Transpose tb, Shape a, Shape b, Shape c) {
    gemm(stream, ta, tb, 1, Tensor(a, Device{}), Tensor(b, Device{}), 0, Tensor(c, Device{}));
  };
  const auto no = Transpose::no, yes = Transpose::yes;
  multiply(no, no, {2, 3}, {3, 4}, {2, 4});  // fits
  CHECK_THROWS_AS(multiply(yes, no, {2, 3}, {3, 4}, {2, 4}), Error);
  CHECK_THROWS_AS(multiply(no, yes, {2, 3}, {3, 4}, {2, 4}), Error);
  CHECK_THROWS_AS(multiply(no, no, {2, 3}, {3, 4}, {1, 4}), Error);
  CHECK_THROWS_AS(multiply(no, no, {2, 3}, {3, 4}, {2, 5}), Error);
  CHECK_THROWS_AS(multiply(no, no, {6}, {3, 4}, {2, 4}), Error);
  CHECK_THROWS_AS(multiply(no, no, {2, 3, 1}, {3, 4}, {2, 4}), Error);
  CHECK_THROWS_AS(multiply(no, no, {2, 3}, {4, 4}, {2, 4}), Error);
}
