// Means in bf16 and PowerSGD's, compared with exact means and with PyTorch's communication
// hooks (tests/golden/hooks.json).
#include "05_ddp_training/advanced/bf16_ring.hpp"
#include "05_ddp_training/advanced/exchange_check.hpp"
#include "05_ddp_training/advanced/powersgd.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/lesson05.hpp"
#include "tests/support/tracer_data.hpp"

#include <cmath>
#include <cstddef>
#include <limits>

using namespace dist;
using namespace dist::test;

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
  CHECK(first_difference(to_host(kStream, gradient), torch.at("bf16").get<Floats>()) == "");

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
