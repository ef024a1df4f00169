// The slowest rank, which a run names.
#include "common/slowest.hpp"

#include "tests/support/mpi_test.hpp"

#include <utility>
#include <vector>

using namespace dist;

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
