// DiLoCo's outer optimizer, worked out by hand.
#include "05_ddp_training/advanced/outer_optimizer.hpp"

#include "tests/support/lesson05.hpp"

#include <algorithm>
#include <span>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("an outer step of rate 1 goes to the mean, and momentum beyond it", "[one process]") {
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
