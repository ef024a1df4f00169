// What a reader sees: times, sizes, rows of numbers, and the count of wrong numbers.
#include "01_send_recv/measure.hpp"

#include "01_send_recv/tracer_numbers.hpp"
#include "02_broadcast/random.hpp"
#include "common/console.hpp"
#include "common/slowest.hpp"
#include "tests/support/mpi_test.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

using namespace dist;
using dist::test::kMost;
using dist::test::kNaN;

TEST_CASE("the median is the middle value, or the mean of the middle two") {
  CHECK(median({}) == 0.0);
  CHECK(median({9.0, 1.0, 5.0}) == 5.0);
  CHECK(median({9.0, 1.0, 4.0, 6.0}) == 5.0);
  CHECK(median({2.0, 100.0}) == 51.0);
}

TEST_CASE("the slowest rank is named if it clearly differs from the others") {
  const auto named = [](std::vector<double> busy) {
    const auto found = slowest(busy);
    return found ? std::pair(found->rank, found->ratio) : std::pair(-1, 0.0);
  };
  CHECK(named({1.0, 1.0, 2.5, 0.9}) == std::pair(2, 2.5));
  CHECK(named({3.5, 2.0}) == std::pair(0, 1.75));
  const std::pair nobody(-1, 0.0);
  CHECK(named({3.4, 2.0}) == nobody);
  CHECK(named({1.0, 2.0, 2.0}) == nobody);  // two slow ranks, or one fast one?
  CHECK(named({1.0, 1.2, 1.4, 0.5}) == nobody);
  CHECK(named({}) == nobody);
  CHECK(named({7.0}) == nobody);
  CHECK(named({0.0, 1.0, 0.0}) == nobody);
}

TEST_CASE("a sweep starts and ends at the requested sizes") {
  using Sizes = std::vector<std::size_t>;
  CHECK(sweep(4, 100) == Sizes{4, 16, 64, 100});
  CHECK(sweep(0, 16) == Sizes{0, 4, 16});
  CHECK(sweep(0, 2) == Sizes{0, 2});
  CHECK(sweep(12, 12) == Sizes{12});
  // 4 * bytes must not wrap around.
  CHECK(sweep(kMost / 8, kMost) == Sizes{kMost / 8, 4 * (kMost / 8), kMost});
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

TEST_CASE("numbers in JSON rows have enough digits for a float32, and sizes are exact") {
  CHECK(significant(1.0 / 3.0) == 0.333333333);
  CHECK(significant(-123456789012.0) == -123456789000.0);
  CHECK(std::isnan(significant(double{kNaN})));
  CHECK(significant(HUGE_VAL) == HUGE_VAL);
  Generator generator(2);
  std::vector<float> values(1000);
  fill_uniform(values, -3.0, 1e7, generator);
  for (const float value : values) {
    CHECK(static_cast<float>(significant(double{value})) == value);
  }
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1024) == "1 KiB");
  CHECK(format_bytes(1536) == "1536 B");
  CHECK(format_bytes(std::size_t{16} << 20) == "16 MiB");
  CHECK(format_bytes(std::size_t{1} << 40) == "1024 GiB");
}

TEST_CASE("printed text cannot control the terminal") {
  CHECK(printable("plain \"text\", ü and \xe2\x82\xac") ==
        "plain \"text\", ü and \xe2\x82\xac");
  CHECK(printable("\x1b[2Jgone\n\x7f") == "\\x1b[2Jgone\\x0a\\x7f");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\xc2\\x9b31m");  // CSI as one character
  // A name that is not UTF-8 must not end a run.
  CHECK(to_text({{"file", "\xff"}}) == "{\"file\":\"\xef\xbf\xbd\"}");
}

TEST_CASE("the count of wrong numbers includes NaNs and another rank's numbers") {
  std::vector<float> data(2000);
  fill_tracer_numbers(data, 2);
  const auto expected = [](std::size_t i) { return double{tracer_number(2, i)}; };
  CHECK(count_wrong(data, expected) == 0);
  CHECK(count_wrong(data, [](std::size_t i) { return double{tracer_number(1, i)}; }) == 2000);
  data[3] = kNaN;
  CHECK(count_wrong(data, expected, 0.5) == 1);
}
