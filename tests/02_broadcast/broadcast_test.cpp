// Lesson 2: after a broadcast every rank holds the root's numbers, for every algorithm, root
// and size.
#include "02_broadcast/broadcast.hpp"

#include "tests/support/tracer_data.hpp"
#include "tools/exercises/counted.hpp"

#include <cstddef>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

static std::vector<float> root_numbers_else_nan(std::size_t count, int root) {
  std::vector<float> data(count, kNaN);
  if (world().rank() == root) fill_tracer_numbers(data, root);
  return data;
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
