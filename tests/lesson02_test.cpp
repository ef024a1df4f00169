// Lesson 2: after a broadcast everybody holds root's numbers, for every algorithm, root and
// size.
#include "02_broadcast/broadcast.hpp"
#include "common/tracer_numbers.hpp"
#include "tests/support/mpi_test.hpp"

#include <limits>
#include <vector>

using namespace dist;
using dist::test::all_ranks;
using dist::test::tricky_sizes;
using dist::test::world;

namespace {

constexpr BroadcastAlgorithm kAll[] = {BroadcastAlgorithm::flat, BroadcastAlgorithm::tree,
                                       BroadcastAlgorithm::pipeline, BroadcastAlgorithm::mpi};

std::vector<float> root_numbers_else_nan(std::size_t count, int root) {
  std::vector<float> data(count, std::numeric_limits<float>::quiet_NaN());
  if (world().rank() == root) fill_tracer_numbers(data, root);
  return data;
}

bool all_from(const std::vector<float>& data, int root) {
  return count_wrong(data, [&](std::size_t i) { return tracer_number(root, i); }) == 0;
}

}  // namespace

TEST_CASE("every algorithm brings every root's numbers to all ranks, at every size") {
  for (const BroadcastAlgorithm algorithm : kAll) {
    for (int root = 0; root < world().size(); ++root) {
      for (const std::size_t count : tricky_sizes()) {
        std::vector<float> data = root_numbers_else_nan(count, root);
        broadcast<float>(world(), data, root, algorithm);
        INFO("algorithm " << static_cast<int>(algorithm) << ", root " << root << ", count "
                          << count);
        CHECK(all_from(data, root));
      }
    }
  }
}

TEST_CASE("a megafloat arrives whole") {
  for (const BroadcastAlgorithm algorithm : kAll) {
    const int root = world().size() - 1;
    std::vector<float> data = root_numbers_else_nan(1'000'003, root);
    broadcast<float>(world(), data, root, algorithm);
    CHECK(all_from(data, root));
  }
}

TEST_CASE("the pipeline works with segments of any size") {
  for (const std::size_t segment_bytes : {std::size_t{1}, std::size_t{4}, std::size_t{20},
                                          std::size_t{400}, std::size_t{1} << 20}) {
    std::vector<float> data = root_numbers_else_nan(103, 0);
    broadcast_pipeline<float>(world(), data, 0, segment_bytes);
    INFO("segments of " << segment_bytes);
    CHECK(all_from(data, 0));
  }
}

TEST_CASE("broadcasts in a row do not mix") {
  for (int round = 0; round < 20; ++round) {
    const int root = round % world().size();
    std::vector<std::int64_t> data(3, world().rank() == root ? 100 + round : -1);
    broadcast<std::int64_t>(world(), data, root, kAll[round % 4]);
    REQUIRE(all_ranks(data == std::vector<std::int64_t>(3, 100 + round)));
  }
}

TEST_CASE("the rounds are those of the formulas") {
  using enum BroadcastAlgorithm;
  CHECK(broadcast_rounds(flat, 4, 8) == 7);
  CHECK(broadcast_rounds(tree, 4, 1) == 0);
  CHECK(broadcast_rounds(tree, 4, 2) == 1);
  CHECK(broadcast_rounds(tree, 4, 7) == 3);
  CHECK(broadcast_rounds(tree, 4, 8) == 3);
  CHECK(broadcast_rounds(tree, 4, 9) == 4);
  CHECK(broadcast_rounds(pipeline, kSegmentBytes, 4) == 3);
  CHECK(broadcast_rounds(pipeline, 10 * kSegmentBytes + 1, 4) == 13);
  CHECK(broadcast_rounds(mpi, 4, 8) == -1);
}
