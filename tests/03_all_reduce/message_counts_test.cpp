// Lesson 3: compares the messages and bytes of each all-reduce with its formula.
#include "03_all_reduce/choice/all_reducer.hpp"
#include "tests/support/mpi_test.hpp"
#include "tools/exercises/counted.hpp"

#include <algorithm>
#include <bit>
#include <vector>

using namespace dist;
using dist::test::tricky_and_large_sizes;
using dist::test::world;

static Traffic traffic_of(AllReduceAlgorithm algorithm, std::size_t count) {
  std::vector<float> data(count, static_cast<float>(world().rank() + 1));
  return counted(world(), [&] { all_reduce<float>(world(), data, ReduceOp::sum, algorithm); });
}

// The bytes that the busiest rank sends in 2 (N - 1) steps of one chunk each. In each half a
// rank sends all chunks but one, and the one that the busiest rank omits is among the shortest.
static std::uint64_t ring_bytes(std::size_t count) {
  const int size = world().size();
  std::uint64_t most = 0;
  for (int rank = 0; rank < size; ++rank) {
    std::uint64_t elements = 0;
    for (int step = 0; step < 2 * (size - 1); ++step) {
      elements += chunk_range(count, size, rank - 1 - step).count;
    }
    most = std::max(most, elements * sizeof(float));
  }
  return most;
}

TEST_CASE("a ring sends 2 (N - 1) / N of the bytes in 2 (N - 1) chunks, only to the right") {
  const auto n = static_cast<std::uint64_t>(world().size());
  for (const auto algorithm : {AllReduceAlgorithm::ring, AllReduceAlgorithm::ring_pipelined}) {
    for (const std::size_t count : tricky_and_large_sizes()) {
      INFO(to_string(algorithm) << ", " << count << " elements");
      const Traffic traffic = traffic_of(algorithm, count);
      const std::uint64_t segments = algorithm == AllReduceAlgorithm::ring
                                         ? 1
                                         : ring_segments(count * sizeof(float), world().size());
      CHECK(traffic.messages_per_rank == 2 * (n - 1) * segments);
      CHECK(traffic.bytes_per_rank == ring_bytes(count));
      // The formula is exact to within one element per chunk.
      CHECK(traffic.bytes_per_rank * n <= 2 * (n - 1) * (count + n) * sizeof(float));
      CHECK(traffic.peers == (n == 1 ? std::vector<int>{} : std::vector<int>{1}));
      CHECK(traffic.collectives == 0);
    }
  }
}

TEST_CASE("recursive doubling sends log2 N messages, and Rabenseifner's twice as many") {
  const PowerOfTwo group(world().size());
  const auto rounds =
      static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(group.count)) - 1);
  // A rank with a surplus neighbour also sends the result to that neighbour.
  const std::uint64_t fold = group.surplus > 0 ? 1 : 0;
  for (const std::size_t count : tricky_and_large_sizes()) {
    INFO(count << " elements");
    const std::uint64_t bytes = count * sizeof(float);
    const Traffic doubling = traffic_of(AllReduceAlgorithm::recursive_doubling, count);
    CHECK(doubling.messages_per_rank == rounds + fold);
    CHECK(doubling.bytes_per_rank == (rounds + fold) * bytes);
    CHECK(doubling.collectives == 0);
    const Traffic halving = traffic_of(AllReduceAlgorithm::rabenseifner, count);
    CHECK(halving.messages_per_rank == 2 * rounds + fold);
    const auto s = static_cast<std::uint64_t>(group.count);
    const std::uint64_t share = 2 * (s - 1) * (bytes + s * sizeof(float)) / s;
    CHECK(halving.bytes_per_rank <= share + fold * bytes);
    CHECK(halving.collectives == 0);
  }
}

TEST_CASE("shared memory sends no messages") {
  AllReducer reducer(world());
  const Tensor tensor = reducer.allocate({100'000});
  std::vector<float> own(100'000);
  const Traffic traffic = counted(world(), [&] {
    reducer.all_reduce(tensor.span(), ReduceOp::sum, AllReduceAlgorithm::shared_memory);
    reducer.all_reduce<float>(own, ReduceOp::sum, AllReduceAlgorithm::shared_memory);
  });
  CHECK(traffic.messages_per_rank == 0);
  CHECK(traffic.collectives == 0);
}
