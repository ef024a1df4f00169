// Lesson 3: the predicted cost of an all-reduce, and which algorithm `auto` is.
#include "03_all_reduce/choice/all_reducer.hpp"
#include "tests/support/mpi_test.hpp"

#include <bit>
#include <cmath>
#include <sys/resource.h>
#include <tuple>
#include <utility>
#include <vector>

using namespace dist;
using dist::test::close;

constexpr double kAlpha = 3e-6;
constexpr double kBeta = 2e-10;
constexpr double kGamma = 5e-11;

static StepCosts line_costs() {
  StepCosts costs;
  costs.link.alpha_s = kAlpha;
  costs.link.beta_s_per_byte = kBeta;
  costs.gamma_s_per_byte = kGamma;
  return costs;
}

static double predicted(AllReduceAlgorithm algorithm, double bytes, int ranks) {
  return *predict_all_reduce(algorithm, bytes, ranks, line_costs());
}

TEST_CASE("with straight-line costs, the model gives the textbook formulas", "[one process]") {
  for (const int p : {2, 3, 4, 7, 8, 64, 1000}) {
    for (const double n : {0.0, 4.0, 1000.0, 1048576.0}) {
      CHECK(close(predicted(AllReduceAlgorithm::naive, n, p),
                  2 * (p - 1) * (kAlpha + n * kBeta) + (p - 1) * n * kGamma));
      CHECK(close(
          predicted(AllReduceAlgorithm::ring, n, p),
          2 * (p - 1) * kAlpha + 2 * (p - 1.0) / p * n * kBeta + (p - 1.0) / p * n * kGamma));
      // Ranks beyond a power of two send their numbers, which are added, and receive the
      // result.
      const double power = std::bit_floor(static_cast<unsigned>(p));
      const bool folds = !std::has_single_bit(static_cast<unsigned>(p));
      const double fold = !folds ? 0 : 2 * (kAlpha + n * kBeta) + n * kGamma;
      const double lg = std::log2(power);
      CHECK(close(predicted(AllReduceAlgorithm::recursive_doubling, n, p),
                  fold + lg * (kAlpha + n * kBeta + n * kGamma)));
      const double sent = (power - 1) / power * n;
      CHECK(close(predicted(AllReduceAlgorithm::rabenseifner, n, p),
                  fold + 2 * lg * kAlpha + 2 * sent * kBeta + sent * kGamma));
    }
  }
}

TEST_CASE("unless it is shared memory, auto is the model's fastest algorithm",
          "[one process]") {
  const StepCosts costs = line_costs();
  CHECK(auto_choice(0, 8, costs, false) == AllReduceAlgorithm::recursive_doubling);
  CHECK(auto_choice(64, 8, costs, false) == AllReduceAlgorithm::recursive_doubling);
  CHECK(auto_choice(256 << 20, 8, costs, false) == AllReduceAlgorithm::rabenseifner);
  CHECK(auto_choice(256 << 20, 7, costs, false) == AllReduceAlgorithm::ring);
  for (const auto& [hosts, ranks, host_memory] :
       {std::tuple{1, 2, false}, {1, 7, false}, {2, 2, true}, {3, 6, true}, {3, 6, false}}) {
    const StepCosts between = step_costs({}, hosts);
    for (double bytes = 4; bytes < 1e9; bytes *= 3) {
      const AllReduceAlgorithm chosen = auto_choice(bytes, ranks, between, host_memory);
      CHECK((chosen != AllReduceAlgorithm::hierarchical || host_memory));
      for (const auto& [name, other] : kAllReduceAlgorithms) {
        if (other == AllReduceAlgorithm::hierarchical && !host_memory) continue;
        CAPTURE(name, bytes, ranks, hosts);
        const auto seconds = predict_all_reduce(other, bytes, ranks, between);
        CHECK((!seconds || *predict_all_reduce(chosen, bytes, ranks, between) <= *seconds));
      }
    }
  }
}

TEST_CASE("between hosts, auto is hierarchical if the hosts have several ranks",
          "[one process]") {
  for (const auto& [hosts, each] : {std::pair{2, 2}, {3, 2}, {8, 8}, {16, 8}}) {
    INFO(hosts << " hosts with " << each << " ranks each");
    CHECK(auto_choice(24 << 20, hosts * each, step_costs({}, hosts), true) ==
          AllReduceAlgorithm::hierarchical);
  }
  CHECK(auto_choice(1 << 24, 2, step_costs({}, 2), true) != AllReduceAlgorithm::hierarchical);
  CHECK(auto_choice(1 << 24, 4, step_costs({}, 2), false) != AllReduceAlgorithm::hierarchical);
}

TEST_CASE("ranks that have measured different links run the same algorithms, rank 0's") {
  const Communicator& world = dist::test::world();
  const LinkCost few_messages{.alpha_s = 1e-3, .beta_s_per_byte = 1e-12};  // are fastest
  const LinkCost few_bytes{.alpha_s = 1e-12, .beta_s_per_byte = 1e-6};
  // Without files, no rank can share memory, and the choice depends on the link.
  rlimit files{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
  const rlimit none{0, files.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  AllReducer reducer(world, world.rank() == 0 ? few_messages : few_bytes);
  ::setrlimit(RLIMIT_NOFILE, &files);
  REQUIRE_FALSE(reducer.why_no_shared_memory().empty());
  int differ = 0;
  for (int bits = 3; bits <= 24; ++bits) {
    const double bytes = 0.75 * std::exp2(bits);
    const auto choice = [&](const LinkCost& link) {
      return auto_choice(bytes, world.size(), step_costs(link, 1), false);
    };
    const auto chosen =
        reducer.chosen(AllReduceAlgorithm::automatic, static_cast<std::size_t>(bytes));
    CHECK(chosen == choice(few_messages));
    REQUIRE(dist::test::all_ranks(chosen == choice(few_messages)));
    differ += choice(few_messages) != choice(few_bytes) ? 1 : 0;
  }
  CHECK((differ > 5 || world.size() == 1));
  std::vector<double> numbers(1000, world.rank() + 1.0);
  reducer.all_reduce<double>(numbers, ReduceOp::sum);
  const double sum = 0.5 * world.size() * (world.size() + 1);
  CHECK(numbers == std::vector<double>(numbers.size(), sum));
}
