// The end of a warm-up; test_learning_rate.py compares the rates of a run's steps.
#include "05_ddp_training/optimizer/lr_schedule.hpp"
#include "tests/support/mpi_test.hpp"

#include <cstddef>
#include <limits>

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
