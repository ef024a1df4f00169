// Lesson 3: every all-reduce gives the right numbers, and the same bits on every rank.
#include "03_all_reduce/all_reduce.hpp"

#include "03_all_reduce/choice/all_reducer.hpp"
#include "common/random.hpp"
#include "tests/support/tracer_data.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

// `count` numbers, in ordinary memory or in memory that all ranks share.
static Tensor buffer_of(AllReducer& reducer, bool registered, std::size_t count) {
  return registered ? reducer.allocate({count}) : Tensor({count}, Device{});
}

// Calls run(data, algorithm) for every algorithm and size, on both kinds of memory.
template <class Run>
static void for_every_algorithm(AllReducer& reducer, const std::vector<std::size_t>& sizes,
                                Run run) {
  for (const auto& [name, algorithm] : kAllReduceAlgorithms) {
    for (const bool registered : {false, true}) {
      for (const std::size_t count : sizes) {
        CAPTURE(name, registered, count);
        const Tensor buffer = buffer_of(reducer, registered, count);
        run(buffer.span(), algorithm);
      }
    }
  }
}

TEST_CASE("chunks cover the tensor once, in order, and differ by at most one element",
          "[one process]") {
  for (const int chunks : {1, 2, 3, 4, 7, 64}) {
    for (const std::size_t count : {0, 1, 2, 3, 5, 6, 7, 8, 63, 64, 65, 1000}) {
      std::size_t next = 0;
      for (int index = 0; index < chunks; ++index) {
        const ChunkRange range = chunk_range(count, chunks, index);
        CHECK(range.begin == next);
        CHECK(range.count >= count / static_cast<std::size_t>(chunks));
        CHECK(range.count <= count / static_cast<std::size_t>(chunks) + 1);
        next = range.begin + range.count;
      }
      CHECK(next == count);
    }
  }
}

TEST_CASE("every algorithm sums, averages and finds the maximum, at every size") {
  AllReducer reducer(world());
  for_every_algorithm(reducer, tricky_and_large_sizes(), [&](auto data, auto algorithm) {
    for (const auto& [name, op] : kReduceOps) {
      CAPTURE(name);
      fill_tracer_numbers(data, world().rank());
      reducer.all_reduce(data, op, algorithm);
      CHECK(wrong_after(op, data) == 0);
    }
  });
}

TEST_CASE(
    "all ranks end with the same bits, although floating-point sums depend on the order") {
  AllReducer reducer(world());
  for_every_algorithm(reducer, tricky_and_large_sizes(), [&](auto data, auto algorithm) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
      if (data.size() > 10000 && op != ReduceOp::sum) continue;  // drawing numbers takes time
      Generator generator(static_cast<std::uint64_t>(world().rank()));
      fill_normal(data, generator);
      reducer.all_reduce(data, op, algorithm);
      REQUIRE(same_bits_everywhere(data));
    }
  });
}

TEST_CASE("a NaN on one rank reaches all ranks, even through max") {
  AllReducer reducer(world());
  for_every_algorithm(reducer, {40, 4000}, [&](auto data, auto algorithm) {
    if (algorithm == AllReduceAlgorithm::mpi) return;  // MPI_MAX is undefined for NaN
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
      for (int sick = 0; sick < world().size(); ++sick) {
        fill_tracer_numbers(data, world().rank());
        if (world().rank() == sick) data[7] = kNaN;
        reducer.all_reduce(data, op, algorithm);
        INFO("NaN from rank " << sick);
        CHECK(std::isnan(data[7]));
        CHECK_FALSE(std::isnan(data[8]));
      }
    }
  });
}

TEST_CASE("what an algorithm cannot do is refused on all ranks, before any message is sent") {
  AllReducer reducer(world());
  for (const auto& [name, algorithm] : kAllReduceAlgorithms) {
    INFO(name);
    std::vector<std::int32_t> data(5, 1);
    CHECK_THROWS_AS(reducer.all_reduce<std::int32_t>(data, ReduceOp::avg, algorithm), Error);
    CHECK_THROWS_AS(all_reduce<std::int32_t>(world(), data, ReduceOp::avg, algorithm), Error);
    if (algorithm == AllReduceAlgorithm::shared_memory ||
        algorithm == AllReduceAlgorithm::hierarchical ||
        algorithm == AllReduceAlgorithm::automatic) {  // these need an AllReducer
      CHECK_THROWS_AS(all_reduce<std::int32_t>(world(), data, ReduceOp::sum, algorithm), Error);
    }
  }
}

TEST_CASE("the two halves make an all-reduce with the same bits, whatever carries them") {
  AllReducer reducer(world());
  for (const auto algorithm : {AllReduceAlgorithm::ring, AllReduceAlgorithm::shared_memory,
                               AllReduceAlgorithm::automatic}) {
    for (const bool registered : {false, true}) {
      for (const std::size_t count : {0, 1, 2, 5, 7, 100, 30'011}) {
        CAPTURE(to_string(algorithm), registered, count);
        const Tensor halves = buffer_of(reducer, registered, count);
        const Tensor whole = buffer_of(reducer, registered, count);
        Generator generator(static_cast<std::uint64_t>(17 + world().rank()));
        fill_uniform(halves.span(), -1, 1, generator);
        std::ranges::copy(halves.span(), whole.span().begin());

        // Shared memory adds up in the order of the ranks, a ring in an order of its own.
        const bool ring = algorithm == AllReduceAlgorithm::ring || !registered;
        reducer.all_reduce(whole.span(), ReduceOp::avg,
                           ring ? AllReduceAlgorithm::ring : AllReduceAlgorithm::shared_memory);
        reducer.reduce_scatter(halves.span(), ReduceOp::avg, algorithm);
        const ChunkRange mine = chunk_range(count, world().size(), world().rank());
        CHECK(std::ranges::equal(window(halves.span(), mine), window(whole.span(), mine)));
        for (std::size_t i = 0; i < count; ++i) {
          if (i < mine.begin || i >= mine.begin + mine.count) halves.span()[i] = -7.0F;
        }
        reducer.all_gather(halves.span(), algorithm);
        CHECK(std::ranges::equal(halves.span(), whole.span()));
        world().barrier();
      }
    }
  }
  const std::string refused = error_of([&] {
    std::vector<float> numbers(8);
    reducer.reduce_scatter(std::span(numbers), ReduceOp::sum,
                           AllReduceAlgorithm::recursive_doubling);
  });
  if (world().size() > 1) {
    CHECK(refused == "recursive-doubling: its all-reduce does not have two halves");
  }
}
