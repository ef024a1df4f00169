// How much of the all-reduces' time could be hidden, computed from invented times.
#include "05_ddp_training/data_parallel/overlap_bound.hpp"
#include "tests/support/catch.hpp"

#include <array>
#include <vector>

using dist::hideable_ms;

TEST_CASE("the last bucket cannot be hidden; the others can be, as long as backward lasts") {
  // The buckets are full at 0, 10 and 20 ms, and backward ends at 20 ms.
  const std::array full{0.0, 10.0, 20.0};
  CHECK(hideable_ms(full, std::array{8.0, 8.0, 1.0}, 20) == 16);   // all but the last one
  CHECK(hideable_ms(full, std::array{15.0, 5.0, 1.0}, 20) == 20);  // busy until the end
  CHECK(hideable_ms(full, std::array{50.0, 5.0, 1.0}, 20) == 20);  // and beyond
  CHECK(hideable_ms(full, std::array{1.0, 12.0, 4.0}, 20) == 11);  // idle before the second
  CHECK(hideable_ms(full, std::array{1.0, 1.0, 1.0}, 30) == 3);    // everything
}

TEST_CASE("a single bucket that is full only when backward ends cannot be hidden") {
  CHECK(hideable_ms(std::array{7.0}, std::array{5.0}, 7) == 0);
  CHECK(hideable_ms(std::array{7.0}, std::array{5.0}, 9) == 2);
  CHECK(hideable_ms({}, {}, 9) == 0);
}
