// Lesson 3: the predicted cost of an all-reduce, which algorithm `auto` is, and the picture.
#include "03_all_reduce/choice/all_reducer.hpp"
#include "03_all_reduce/show.hpp"
#include "tests/support/mpi_test.hpp"

#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

using namespace dist;
using dist::test::world;

namespace {

constexpr double kAlpha = 3e-6;
constexpr double kBeta = 2e-10;
constexpr double kGamma = 5e-11;

double predicted(AllReduceAlgorithm algorithm, double bytes, int ranks) {
  return *predict_all_reduce(algorithm, bytes, ranks,
                             straight_line_costs(kAlpha, kBeta, kGamma));
}

bool close(double a, double b) {
  return std::abs(a - b) <= 1e-12 + 1e-9 * std::abs(b);
}

}  // namespace

TEST_CASE("with straight-line costs, the model gives the textbook formulas") {
  for (const int p : {2, 3, 4, 7, 8, 64, 1000}) {
    for (const double n : {0.0, 4.0, 1000.0, 1048576.0}) {
      CHECK(close(predicted(AllReduceAlgorithm::naive, n, p),
                  2 * (p - 1) * (kAlpha + n * kBeta) + (p - 1) * n * kGamma));
      CHECK(close(
          predicted(AllReduceAlgorithm::ring, n, p),
          2 * (p - 1) * kAlpha + 2 * (p - 1.0) / p * n * kBeta + (p - 1.0) / p * n * kGamma));
      if (!std::has_single_bit(static_cast<unsigned>(p))) continue;
      const double lg = std::log2(p);
      CHECK(close(predicted(AllReduceAlgorithm::recursive_doubling, n, p),
                  lg * (kAlpha + n * kBeta + n * kGamma)));
      CHECK(
          close(predicted(AllReduceAlgorithm::rabenseifner, n, p),
                2 * lg * kAlpha + 2 * (p - 1.0) / p * n * kBeta + (p - 1.0) / p * n * kGamma));
    }
  }
}

TEST_CASE("on one host, auto is shared memory at every size") {
  for (const double bytes : {0.0, 4.0, 1e3, 1e6, 1e9}) {
    CHECK(auto_choice(bytes, 8, typical_costs(1), true) == AllReduceAlgorithm::shared_memory);
  }
}

TEST_CASE("without shared memory, auto is the model's fastest algorithm") {
  const StepCosts costs = straight_line_costs(kAlpha, kBeta, kGamma);
  CHECK(auto_choice(0, 8, costs, false) == AllReduceAlgorithm::recursive_doubling);
  CHECK(auto_choice(64, 8, costs, false) == AllReduceAlgorithm::recursive_doubling);
  CHECK(auto_choice(256 << 20, 8, costs, false) == AllReduceAlgorithm::rabenseifner);
  CHECK(auto_choice(256 << 20, 7, costs, false) == AllReduceAlgorithm::ring);
}

TEST_CASE("between hosts, auto is hierarchical if the hosts have several ranks") {
  for (const auto& [hosts, each] : {std::pair{2, 2}, {3, 2}, {8, 8}, {16, 8}}) {
    INFO(hosts << " hosts with " << each << " ranks each");
    CHECK(auto_choice(24 << 20, hosts * each, typical_costs(hosts), true) ==
          AllReduceAlgorithm::hierarchical);
  }
  CHECK(auto_choice(1 << 24, 2, typical_costs(2), true) != AllReduceAlgorithm::hierarchical);
  CHECK(auto_choice(1 << 24, 4, typical_costs(2), false) != AllReduceAlgorithm::hierarchical);
}

TEST_CASE("the picture shows each chunk collecting one share per step") {
  if (world().size() == 1) return;
  const std::vector<std::string> lines = ring_picture(world());
  if (world().rank() != 0) {
    CHECK(lines.empty());
    return;
  }
  REQUIRE(lines.size() == 2 + static_cast<std::size_t>(world().size()));
  if (world().size() != 4) return;
  CHECK(lines[2] == "  rank 0    2:ad     1:acd    0:abcd |   3:abcd   2:abcd   1:abcd");
  CHECK(lines[5] == "  rank 3    1:cd     0:bcd    3:abcd |   2:abcd   1:abcd   0:abcd");
}

TEST_CASE("a share that is counted twice appears twice in the picture") {
  CHECK(shares(0) == "");
  CHECK(shares(0x1011) == "abd");
  CHECK(shares(0x0201) == "acc");
}
