// Predicted times of broadcasts, and the segments that the pipeline chooses.
#include "02_broadcast/perf/broadcast_cost.hpp"

#include "tests/support/mpi_test.hpp"

#include <algorithm>
#include <cstddef>

using namespace dist;
using namespace dist::test;

// A link whose costs are easy to work with: 1 us + 1 ns per byte, and twice as much in a ring.
static LinkCost round_link() {
  LinkCost link;
  link.alpha_s = 1e-6;
  link.beta_s_per_byte = 1e-9;
  link.message = {{1, 1.001e-6}, {1 << 20, 1e-6 + 1e-9 * (1 << 20)}};
  link.exchange = {{1, 2.002e-6}, {1 << 20, 2e-6 + 2e-9 * (1 << 20)}};
  return link;
}

TEST_CASE("the chosen number of segments is predicted to be the fastest", "[one process]") {
  for (const int size : {3, 4, 7, 64}) {
    for (const std::size_t bytes : {std::size_t{4096}, std::size_t{1} << 20}) {
      LinkCost link;
      link.alpha_s = 2e-6;
      link.beta_s_per_byte = 0.25e-9;
      const auto time = [&](double segments) {
        return (segments + size - 2) *
               (link.alpha_s + static_cast<double>(bytes) * link.beta_s_per_byte / segments);
      };
      const auto chosen =
          static_cast<double>(segments_of(bytes, best_segment_bytes(link, bytes, size)));
      INFO(size << " ranks, " << bytes << " bytes, " << chosen << " segments");
      // Rounding to whole cache lines changes the number of segments slightly, but the curve is
      // flat near its minimum.
      double shortest = time(1);
      for (double segments = 2; segments < 2000; ++segments) {
        shortest = std::min(shortest, time(segments));
      }
      CHECK(0.99 * time(chosen) <= shortest);
    }
  }
  const LinkCost guess;
  CHECK(best_segment_bytes(guess, 1 << 20, 2) == 1 << 20);  // no rank passes anything on
  CHECK(best_segment_bytes(guess, 0, 4) == 64);
  CHECK(best_segment_bytes(guess, 1 << 20, 4) < 1 << 18);
}

TEST_CASE("the predicted times match the formulas", "[one process]") {
  using enum BroadcastAlgorithm;
  const LinkCost link = round_link();
  constexpr std::size_t kBytes = 80'000;
  const auto message = [](double bytes) { return 1e-6 + 1e-9 * bytes; };
  const auto step = [](double bytes) { return 2e-6 + 2e-9 * bytes; };
  const auto predicted = [&](BroadcastAlgorithm algorithm, int size) {
    return predict_broadcast(algorithm, kBytes, size, link).value().seconds;
  };
  CHECK(close(predicted(flat, 8), 7 * message(80'000)));
  CHECK(close(predicted(tree, 8), 3 * message(80'000)));
  CHECK(close(predicted(pipeline, 2), message(80'000)));
  const std::size_t segment = best_segment_bytes(link, kBytes, 8);
  CHECK(close(predicted(pipeline, 8), static_cast<double>(segments_of(kBytes, segment) + 6) *
                                          step(static_cast<double>(segment))));
  CHECK(close(predicted(scatter_all_gather, 2), message(40'000) + step(40'000)));
  CHECK(close(predicted(scatter_all_gather, 8),
              message(40'000) + message(20'000) + message(10'000) + 7 * step(10'000)));
  // On seven ranks the root hands out 3, 2 and 1 chunks of 11429 bytes.
  CHECK(close(predicted(scatter_all_gather, 7),
              message(3 * 11'429) + message(2 * 11'429) + message(11'429) + 6 * step(11'429)));
  for (const auto& [name, algorithm] : kBroadcastAlgorithms) {
    if (algorithm != mpi) CHECK(predicted(algorithm, 1) == 0);
  }
  CHECK_FALSE(predict_broadcast(mpi, kBytes, 8, link).has_value());
}
