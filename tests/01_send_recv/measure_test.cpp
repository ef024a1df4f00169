// Times and sizes: the median, the sweep, and what a time includes.
#include "01_send_recv/measure.hpp"

#include "tests/support/mpi_test.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

using namespace dist;
using dist::test::kMost;

TEST_CASE("the median is the middle value, or the mean of the middle two", "[one process]") {
  CHECK(median({}) == 0.0);
  CHECK(median({9.0, 1.0, 5.0}) == 5.0);
  CHECK(median({9.0, 1.0, 4.0, 6.0}) == 5.0);
  CHECK(median({2.0, 100.0}) == 51.0);
}

TEST_CASE("a sweep starts and ends at the requested sizes", "[one process]") {
  using Sizes = std::vector<std::size_t>;
  CHECK(sweep(4, 100) == Sizes{4, 16, 64, 100});
  CHECK(sweep(0, 16) == Sizes{0, 4, 16});
  CHECK(sweep(0, 2) == Sizes{0, 2});
  CHECK(sweep(12, 12) == Sizes{12});
  // 4 * bytes must not wrap around.
  CHECK(sweep(kMost / 8, kMost) == Sizes{kMost / 8, 4 * (kMost / 8), kMost});
}

TEST_CASE("the time of the slowest rank counts, on all ranks") {
  using namespace std::chrono_literals;
  const Communicator& comm = test::world();
  const double seconds = seconds_on_slowest(comm, [&comm] {
    if (comm.rank() == comm.size() - 1) std::this_thread::sleep_for(20ms);
  });
  CHECK(seconds >= 0.02);
}

TEST_CASE("timing excludes the preparation and one warm-up run") {
  using namespace std::chrono_literals;
  double least = 1;
  // A busy machine may slow down some tries. If the preparation were timed by mistake, all
  // tries would be slow.
  for (int tries = 0; tries < 10 && least >= 0.1; ++tries) {
    int prepared = 0, done = 0;
    const double seconds = median_of_slowest(
        test::world(), 3, [&] { ++done, std::this_thread::sleep_for(5ms); },
        [&] { ++prepared, std::this_thread::sleep_for(100ms); });
    CHECK(prepared == 4);
    CHECK(done == 4);
    CHECK(seconds >= 0.005);
    least = std::min(least, seconds);
  }
  CHECK(least < 0.1);
}
