// The numbers that show where they come from, and the count of wrong ones.
#include "01_send_recv/tracer_numbers.hpp"

#include "tests/support/mpi_test.hpp"

#include <vector>

using namespace dist;
using dist::test::kNaN;

TEST_CASE("the count of wrong numbers includes NaNs and another rank's numbers",
          "[one process]") {
  std::vector<float> data(2000);
  fill_tracer_numbers(data, 2);
  const auto expected = [](std::size_t i) { return double{tracer_number(2, i)}; };
  CHECK(count_wrong(data, expected) == 0);
  CHECK(count_wrong(data, [](std::size_t i) { return double{tracer_number(1, i)}; }) == 2000);
  data[3] = kNaN;
  CHECK(count_wrong(data, expected, 0.5) == 1);
}
