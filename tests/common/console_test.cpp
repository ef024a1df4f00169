// What a reader sees: numbers with enough digits, sizes, and text that cannot do anything.
#include "common/console.hpp"

#include "common/random.hpp"
#include "tests/support/mpi_test.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <vector>

using namespace dist;
using dist::test::kNaN;

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
