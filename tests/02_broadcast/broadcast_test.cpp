// Lesson 2: after a broadcast every rank holds the root's numbers, for every algorithm, root
// and size.
#include "02_broadcast/broadcast.hpp"

#include "02_broadcast/perf/broadcast_cost.hpp"
#include "tests/support/tracer_data.hpp"
#include "tools/exercises/counted.hpp"

#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

static std::vector<float> root_numbers_else_nan(std::size_t count, int root) {
  std::vector<float> data(count, kNaN);
  if (world().rank() == root) fill_tracer_numbers(data, root);
  return data;
}

// A link whose costs are easy to work with: 1 us + 1 ns per byte, and twice as much in a ring.
static LinkCost round_link() {
  LinkCost link;
  link.alpha_s = 1e-6;
  link.beta_s_per_byte = 1e-9;
  link.message = {{1, 1.001e-6}, {1 << 20, 1e-6 + 1e-9 * (1 << 20)}};
  link.exchange = {{1, 2.002e-6}, {1 << 20, 2e-6 + 2e-9 * (1 << 20)}};
  return link;
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

TEST_CASE(
    "every algorithm delivers every root's numbers, in as many rounds as the formulas say") {
  // This test has its own communicator, so that the next test does not receive messages that a
  // faulty algorithm left behind.
  const Communicator own = world().duplicate();
  LinkCost no_latency;  // so in the pipeline, each cache line is a segment
  no_latency.alpha_s = 0;
  LinkCost free_bytes;  // so there is one segment
  free_bytes.beta_s_per_byte = 0;
  for (const auto& [name, algorithm] : kBroadcastAlgorithms) {
    for (const LinkCost& link : {round_link(), no_latency, free_bytes}) {
      if (algorithm != BroadcastAlgorithm::pipeline && link.message.empty()) continue;
      for (int root = 0; root < own.size(); ++root) {
        for (const std::size_t count : tricky_sizes()) {
          INFO(name << ", root " << root << ", count " << count << ", alpha " << link.alpha_s);
          std::vector<float> data = root_numbers_else_nan(count, root);
          const Traffic traffic =
              counted(own, [&] { broadcast<float>(own, data, root, algorithm, link); });
          REQUIRE(all_ranks(all_from(data, root)));
          if (algorithm == BroadcastAlgorithm::mpi) continue;
          const auto formula =
              predict_broadcast(algorithm, count * sizeof(float), own.size(), link);
          CHECK(traffic.rounds == static_cast<std::uint64_t>(formula.value().rounds));
          CHECK(traffic.collectives == 0);
        }
      }
    }
  }
}

TEST_CASE("messages, bytes and peers are as expected for each algorithm") {
  using enum BroadcastAlgorithm;
  const LinkCost link = round_link();
  const int size = world().size();
  if (size < 2) return skip("needs 2 ranks");
  constexpr std::size_t kCount = 7 * 4 * 3 * 1000;  // whole chunks on 2, 3, 4 and 7 ranks
  constexpr std::uint64_t kBytes = kCount * sizeof(float);
  const auto others = static_cast<std::uint64_t>(size - 1);
  const auto doublings = static_cast<std::uint64_t>(tree_rounds(size));
  std::vector<int> everybody;
  for (int rank = 1; rank < size; ++rank) everybody.push_back(rank);
  std::vector<int> powers;
  for (int rank = 1; rank < size; rank *= 2) powers.push_back(rank);
  struct Expected {
    BroadcastAlgorithm algorithm;
    std::uint64_t messages, bytes;  // of the rank that sends most
    std::vector<int> peers;
    std::uint64_t collectives;
  };
  for (const Expected& want : std::vector<Expected>{
           {flat, others, others * kBytes, everybody, 0},
           {tree, doublings, doublings * kBytes, powers, 0},
           {pipeline,
            segments_of(kBytes, best_segment_bytes(link, kBytes, size)),
            kBytes,
            {1},
            0},
           // The root hands out all chunks except its own, then passes on as many.
           {scatter_all_gather, doublings + others,
            2 * others * kBytes / static_cast<std::uint64_t>(size), powers, 0},
           {mpi, 0, 0, {}, 1}}) {
    std::vector<float> data = root_numbers_else_nan(kCount, 0);
    const Traffic traffic =
        counted(world(), [&] { broadcast<float>(world(), data, 0, want.algorithm, link); });
    CAPTURE(static_cast<int>(want.algorithm));
    CHECK(traffic.collectives == want.collectives);
    CHECK(traffic.messages_per_rank == want.messages);
    CHECK(traffic.bytes_per_rank == want.bytes);
    CHECK(traffic.peers == want.peers);
  }
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
