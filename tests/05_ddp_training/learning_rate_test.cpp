// The end of a warm-up, and a cosine; test_learning_rate.py compares the rates of a run's
// steps.
#include "05_ddp_training/optimizer/lr_schedule.hpp"
#include "tests/support/mpi_test.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("in a long warm-up, no rate exceeds the final one, which is reached exactly",
          "[one process]") {
  const LrSchedule odd = linearly_scaled(1e-3, 7, 997);
  for (std::size_t step = 1; step < 1100; ++step) {
    CHECK(odd.at(step) >= odd.at(step - 1));
    CHECK(odd.at(step) <= odd.end);
  }
  CHECK(odd.at(997) == 7e-3);
  CHECK(odd.at(std::numeric_limits<std::size_t>::max()) == 7e-3);
}

TEST_CASE("after its warm-up, a cosine falls to its floor, and stays there", "[one process]") {
  const CosineSchedule cosine{
      .peak = 0.01, .floor = 0.001, .warmup_steps = 4, .total_steps = 10};
  // From PyTorch: LambdaLR with 0.1 + 0.9 / 2 * (1 + cos(pi * (step - 4) / 6)), in float64.
  const std::vector<double> rates{0,
                                  0.0025,
                                  0.005,
                                  0.0075,
                                  0.01,
                                  0.009397114317029974,
                                  0.00775,
                                  0.0055,
                                  0.0032499999999999994,
                                  0.0016028856829700262,
                                  0.001,
                                  0.001};
  for (std::size_t step = 0; step < rates.size(); ++step) {
    CAPTURE(step);
    CHECK(std::abs(cosine.at(step) - rates[step]) < 1e-16);
  }
  CHECK(cosine.at(std::numeric_limits<std::size_t>::max()) == 0.001);
}
