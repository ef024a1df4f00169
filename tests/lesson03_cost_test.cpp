// Lesson 3, advanced: the predicted cost of an all-reduce, by formula and by simulation.
#include "03_all_reduce/choice/all_reducer.hpp"
#include "03_all_reduce/show/ring_picture.hpp"
#include "03_all_reduce/show/simulate.hpp"
#include "tests/support/mpi_test.hpp"

#include <algorithm>
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
                             straight_line_costs(kAlpha, kBeta, kGamma), false);
}

bool close(double a, double b) {
  return std::abs(a - b) <= 1e-12 + 1e-9 * std::abs(b);
}

// A machine whose links are all alike, as the formulas assume.
Machine flat(int ranks) {
  const LinkLine link{kAlpha, kBeta};
  return {ranks, 1, 1, link, link, kGamma};
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

TEST_CASE("no algorithm is predicted to be faster than the lower bound") {
  for (const auto& [name, algorithm] : kAllReduceAlgorithms) {
    for (const int p : {2, 3, 5, 8, 100}) {
      for (const double n : {4.0, 65536.0, 1e8}) {
        const auto seconds = predict_all_reduce(
            algorithm, n, p, straight_line_costs(kAlpha, kBeta, kGamma), false);
        INFO(name << ", " << p << " ranks, " << n << " bytes");
        if (seconds)
          CHECK(*seconds >= lower_bound_seconds(n, p, kAlpha, kBeta, kGamma) * (1 - 1e-9));
      }
    }
  }
}

TEST_CASE("a step-by-step simulation of a flat machine agrees with the formulas") {
  for (const int p : {1, 2, 3, 4, 7, 8, 16, 61, 64}) {
    for (const double n : {0.0, 4.0, 100000.0}) {
      INFO(p << " ranks, " << n << " bytes");
      CHECK(close(simulate_all_reduce(SimulatedAlgorithm::ring, flat(p), n),
                  predicted(AllReduceAlgorithm::ring, n, p)));
      CHECK(close(simulate_all_reduce(SimulatedAlgorithm::recursive_doubling, flat(p), n),
                  predicted(AllReduceAlgorithm::recursive_doubling, n, p)));
      if (!std::has_single_bit(static_cast<unsigned>(p))) continue;
      const double lg = std::log2(p);
      CHECK(close(simulate_all_reduce(SimulatedAlgorithm::tree, flat(p), n),
                  2 * lg * (kAlpha + n * kBeta) + lg * n * kGamma));
      CHECK(close(simulate_all_reduce(SimulatedAlgorithm::hierarchical, flat(p), n),
                  predicted(AllReduceAlgorithm::rabenseifner, n, p)));
    }
  }
}

TEST_CASE("hierarchical is a ring within hosts and Rabenseifner's algorithm between them") {
  const Machine machine{64, 8, 8, {1e-6, 1e-11}, {9e-6, 3e-10}, kGamma};
  const double n = 1e6;
  const double share = n / 8;
  const double inside = 2 * 7 * (1e-6 + share * 1e-11) + 7 * share * kGamma;
  const double across = 2 * 3 * 9e-6 + 2 * 7.0 / 8 * share * 3e-10 + 7.0 / 8 * share * kGamma;
  CHECK(close(simulate_all_reduce(SimulatedAlgorithm::hierarchical, machine, n),
              inside + across));
}

TEST_CASE("ranks that share a link to the network share its bandwidth") {
  // Between two hosts of two ranks, hierarchical sends the tensor once each way, over one link
  // or two. With free additions and a free inside, only these bytes take time.
  const double n = 1e6;
  for (const int links : {1, 2}) {
    const Machine machine{4, 2, links, {0, 0}, {0, 8e-9}, 0};
    const double once = n * 8e-9 / links;
    CHECK(close(simulate_all_reduce(SimulatedAlgorithm::hierarchical, machine, n), once));
    // Two ranks of each host exchange whole tensors.
    CHECK(close(simulate_all_reduce(SimulatedAlgorithm::recursive_doubling, machine, n),
                2 * once));
  }
  // Three hosts are no power of two, so a ring connects them.
  const Machine three{6, 2, 1, {0, 0}, {0, 8e-9}, 0};
  CHECK(close(simulate_all_reduce(SimulatedAlgorithm::hierarchical, three, n),
              2 * 2 / 3.0 * n * 8e-9));
}

TEST_CASE("between hosts, the plan prefers hierarchical if the hosts have several ranks") {
  for (const auto& [hosts, each] : {std::pair{3, 2}, {8, 8}, {16, 8}}) {
    INFO(hosts << " hosts with " << each << " ranks each");
    const AllReducePlan plan(hosts * each, guessed_costs(hosts));
    CHECK(plan.choose(24 << 20, true) == AllReduceAlgorithm::hierarchical);
    CHECK(plan.choose(24 << 20, false) == AllReduceAlgorithm::hierarchical);
  }
  StepCosts costs = guessed_costs(2);
  CHECK(AllReducePlan(4, costs).choose(1 << 24, true) == AllReduceAlgorithm::hierarchical);
  CHECK(AllReducePlan(2, costs).choose(1 << 24, true) != AllReduceAlgorithm::hierarchical);
  costs.move = nullptr;  // the ranks of a host cannot share memory
  CHECK(AllReducePlan(4, costs).choose(1 << 24, true) != AllReduceAlgorithm::hierarchical);
}

TEST_CASE("a ring over several hosts is as slow as its slowest link, in both simulations") {
  // If the last host is not full, every rank is simulated; otherwise one host stands for all.
  for (const int ranks : {63, 64}) {
    const Machine machine{ranks, 8, 8, {1e-6, 1e-11}, {9e-6, 3e-10}, 0};
    const double chunk = 1e6 / ranks;
    const double slow = 2 * (ranks - 1) * (9e-6 + chunk * 3e-10);
    const double seconds = simulate_all_reduce(SimulatedAlgorithm::ring, machine, 1e6);
    INFO(ranks << " ranks");
    CHECK(seconds <= slow * (1 + 1e-9));
    CHECK(seconds >= slow * 0.99);
  }
}

TEST_CASE("the plan chooses the model's fastest algorithm, or shared memory if available") {
  StepCosts costs = straight_line_costs(kAlpha, kBeta, kGamma);
  const AllReducePlan messages(8, costs);
  CHECK(messages.choose(0, false) == AllReduceAlgorithm::recursive_doubling);
  CHECK(messages.choose(64, true) == AllReduceAlgorithm::recursive_doubling);
  CHECK(messages.choose(256U << 20, false) == AllReduceAlgorithm::rabenseifner);
  CHECK(AllReducePlan(7, costs).choose(256U << 20, false) == AllReduceAlgorithm::ring);
  costs.move = [](double bytes) { return bytes * 1e-10; };
  costs.barrier = 1e-6;
  costs.segment_block = 20e-6;
  const AllReducePlan shared(8, costs);
  for (const std::size_t bytes : {0U, 4U, 1024U, 1U << 20, 1U << 30}) {
    CHECK(shared.choose(bytes, true) == AllReduceAlgorithm::shared_memory);
    CHECK(shared.choose(bytes, false) == AllReduceAlgorithm::shared_memory);
  }
}

TEST_CASE("all ranks choose the same algorithm, although each has different costs") {
  if (world().size() == 1) return;  // sends no messages
  // Rank 0's messages are free; those of the others take a second.
  LinkCost cost;
  cost.alpha_s = world().rank() == 0 ? 0 : 1;
  cost.beta_s_per_byte = 0;
  const AllReducer reducer(world(), cost);
  for (const std::size_t bytes : {0U, 1024U}) {
    const auto chosen = reducer.chosen(AllReduceAlgorithm::automatic, bytes, true);
    CHECK(chosen != AllReduceAlgorithm::shared_memory);
    int mine = static_cast<int>(chosen);
    MPI_CHECK(MPI_Bcast(&mine, 1, MPI_INT, 0, world().get()));
    CHECK(mine == static_cast<int>(chosen));
  }
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
