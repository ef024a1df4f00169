// How much of the all-reduces' time could be hidden, computed from invented times.
#include "05_ddp_training/trainer/timeline.hpp"
#include "tests/support/mpi_test.hpp"

#include <array>

using namespace dist;
using namespace dist::test;

TEST_CASE("the last bucket cannot be hidden; the others can be, as long as backward lasts",
          "[one process]") {
  // The buckets are full at 0, 10 and 20 ms, and backward ends at 20 ms.
  const std::array full{0.0, 10.0, 20.0};
  CHECK(hideable_ms(full, std::array{8.0, 8.0, 1.0}) == 16);   // all but the last one
  CHECK(hideable_ms(full, std::array{15.0, 5.0, 1.0}) == 20);  // busy until the end
  CHECK(hideable_ms(full, std::array{50.0, 5.0, 1.0}) == 20);  // and beyond
  CHECK(hideable_ms(full, std::array{1.0, 12.0, 4.0}) == 11);  // idle before the second
  CHECK(hideable_ms(std::array{7.0}, std::array{5.0}) == 0);   // a single bucket
}
