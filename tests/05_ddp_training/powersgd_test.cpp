// PowerSGD: what it sends and what it keeps.
#include "05_ddp_training/advanced/powersgd.hpp"

#include "05_ddp_training/advanced/exchange_check.hpp"
#include "tests/support/lesson05.hpp"
#include "tests/support/tracer_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>

using namespace dist;
using namespace dist::test;

TEST_CASE("PowerSGD sends or keeps all of a gradient, and sends all of it at full rank") {
  for (const Shape& shape : {Shape{20, 12}, Shape{12, 20}, Shape{1, 9}}) {
    for (const std::size_t matrix_rank : {1, 3, 12, 40}) {
      const bool full = matrix_rank >= std::min(shape[0], shape[1]);
      const Tensor gradient(shape, Device{});
      PowerSgd power(gradient, matrix_rank, /*feedback=*/true, /*seed=*/3);
      for (std::size_t step = 0; step < 4; ++step) {
        CAPTURE(to_string(shape), matrix_rank, step);
        Floats due = noise(gradient.numel(), 100 * step + rank());
        std::ranges::copy(due, gradient.data());
        std::ranges::transform(due, power.kept().span(), due.begin(), std::plus());
        power.exchange(world(), kStream);
        CHECK(same_bits_everywhere(gradient.span()));
        CHECK(error_of_low_rank(world(), due, gradient.span(), power.kept().span(), full) <= 1);
      }
    }
  }
}

TEST_CASE("nearly equal columns become perpendicular, up to rounding", "[one process]") {
  Generator random(5);
  for (const double apart : {1e-2, 1e-4}) {
    const Tensor columns({3, 200}, Device{});  // transposed, as PowerSgd keeps them
    const std::span<float> all = columns.span(), first = all.first(200);
    fill_normal(all, random);
    for (std::size_t i = 200; i < all.size(); ++i) {
      all[i] = first[i % 200] + static_cast<float>(apart) * all[i];
    }
    orthogonalize(columns, random);
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double product = 0;
        for (std::size_t k = 0; k < 200; ++k) {
          product += double{all[200 * i + k]} * all[200 * j + k];
        }
        CAPTURE(apart, i, j);
        CHECK(std::abs(product - (i == j ? 1 : 0)) < 1e-6);
      }
    }
  }
}

TEST_CASE("what a low-rank exchange neither sent nor kept is an error") {
  const Tensor gradient({20, 12}, Device{});
  PowerSgd power(gradient, 3, /*feedback=*/true, /*seed=*/3);
  const Floats due = noise(gradient.numel(), rank());
  std::ranges::copy(due, gradient.data());
  power.exchange(world(), kStream);
  Floats kept = to_host(kStream, power.kept());
  const auto error = [&] {
    return error_of_low_rank(world(), due, gradient.span(), kept, /*full=*/false);
  };
  CHECK(error() <= 1);
  kept[7] += 1e-4F;
  CHECK(error() > 1);
  kept[7] = kNaN;
  CHECK(error() > 1);
  CHECK(error_of_low_rank(world(), due, gradient.span(), {}, /*full=*/false) <= 1);
}
