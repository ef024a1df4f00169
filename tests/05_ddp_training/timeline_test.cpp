// The times of a run, however long it is.
#include "05_ddp_training/trainer/timeline.hpp"

#include "tests/support/mpi_test.hpp"

#include <cmath>
#include <cstddef>
#include <malloc.h>

using namespace dist;
using namespace dist::test;

TEST_CASE("a long run keeps no more times than a short one, and its figures stay right",
          "[one process]") {
  const auto allocated = [] { return ::mallinfo2().uordblks + ::mallinfo2().hblkhd; };
  const std::size_t before = allocated();
  Timeline times;
  for (int i = 0; i < 1'000'000; ++i) times.add({.samples = 2, .step = 1.0 * i});
  CHECK(allocated() - before < (2U << 20));
  CHECK(std::abs(times.typical().step - 500'000) < 1000);
  CHECK(std::abs(times.samples_per_second() * 250 - 1) <
        1e-2);  // a step takes 500 s on average
}
