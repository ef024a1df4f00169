// Lesson 5, sending less: bf16, PowerSGD and DiLoCo's outer optimizer, compared with exact
// means and with PyTorch's communication hooks (tests/golden/hooks.json).
#include "05_ddp_training/advanced/bf16_ring.hpp"
#include "05_ddp_training/advanced/exchange_check.hpp"
#include "05_ddp_training/advanced/outer_optimizer.hpp"
#include "05_ddp_training/advanced/powersgd.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/lesson05.hpp"
#include "tests/support/tracer_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

using namespace dist;
using namespace dist::test;

const Stream kStream{Device{}};

// Fills a gradient with the numbers of this rank and step, as the script in hooks.json does.
static void fill(const Tensor& gradient, int step) {
  for (int n = 0; n < 30; ++n) {
    const int number = (n * n * 7 + n * (step + 3) + 13 * world().rank() + 5) % 29 - 14;
    gradient.data()[n] = static_cast<float>(number) / 7;
  }
}

TEST_CASE("two ranks get what PyTorch's hooks give") {
  if (world().size() != 2) return skip("needs 2 ranks");
  const auto torch = golden("hooks.json");
  const Tensor gradient({6, 5}, Device{});
  fill(gradient, 0);
  average_in_bf16(world(), gradient.span());
  CHECK(to_host(kStream, gradient) == torch.at("bf16").get<Floats>());

  PowerSgd power(gradient, 1, /*feedback=*/true, torch.at("seed").get<std::uint64_t>());
  for (int step = 0; step < 3; ++step) {
    fill(gradient, step);
    power.exchange(world(), kStream);
    const auto wanted = torch.at("powersgd").at(static_cast<std::size_t>(step)).get<Floats>();
    CHECK(largest_error(to_host(kStream, gradient), wanted) <= 1e-5);
  }
}

TEST_CASE("a mean in bf16 is as exact as bf16 can be, and has the same bits on all ranks") {
  for (const std::size_t count : tricky_sizes()) {
    Floats numbers = noise(count, 17 + rank()), due = numbers;
    average_in_bf16(world(), numbers);
    CHECK(same_bits_everywhere(numbers));
    CHECK(error_of_mean(world(), due, numbers, std::exp2(-8)) <= 1);
    if (count > 1 && ranks() > 1)
      CHECK(error_of_mean(world(), due, numbers, std::exp2(-12)) > 1);
  }
}

TEST_CASE("a mean with a number that is not one is an error") {
  const Floats due{1, 2, 3};
  CHECK(error_of_mean(world(), due, due, std::exp2(-24)) <= 1);
  for (const std::size_t place : {0, 1, 2}) {
    for (const float number : {kNaN, std::numeric_limits<float>::infinity()}) {
      Floats sent = due;
      sent[place] = number;
      CHECK(error_of_mean(world(), due, sent, std::exp2(-24)) > 1);
    }
  }
}

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

TEST_CASE("nearly equal columns become perpendicular, up to rounding") {
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

TEST_CASE("an outer step of rate 1 goes to the mean, and momentum beyond it") {
  std::vector<Parameter> parameters{{"weight", Tensor({3}, Device{}), Tensor()}};
  const std::span<float> values = parameters[0].value.span();
  OuterOptimizer plain(1, 0, parameters, kStream), nesterov(0.5, 0.5, parameters, kStream);
  const Floats mean{1, -2, 4};
  std::ranges::copy(mean, values.begin());
  plain.step();
  CHECK(to_host(kStream, parameters[0].value) == mean);
  // The gradient is -mean, and so is the momentum: 0.5 (1 + 0.5) of the way.
  nesterov.step();
  CHECK(to_host(kStream, parameters[0].value) == Floats{0.75, -1.5, 3});
  // From there, the next gradient is a quarter of the first; the momentum keeps half of it.
  std::ranges::copy(mean, values.begin());
  nesterov.step();
  CHECK(to_host(kStream, parameters[0].value) == Floats{1.0625, -2.125, 4.25});
}
