// Lesson 3: every all-reduce gives the right numbers, and the same bits on every rank.
#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/registered_memory.hpp"
#include "common/hash.hpp"
#include "common/random.hpp"
#include "common/tracer_numbers.hpp"
#include "tests/support/mpi_test.hpp"

#include <mpi.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace dist;
using dist::test::all_ranks;
using dist::test::tricky_sizes;
using dist::test::world;

namespace {

std::vector<float> my_numbers(std::size_t count) {
  std::vector<float> numbers(count);
  fill_tracer_numbers(numbers, world().rank());
  return numbers;
}

double sum_of_all(std::size_t index) {
  double sum = 0;
  for (int rank = 0; rank < world().size(); ++rank) sum += tracer_number(rank, index);
  return sum;
}

// Called on all ranks: whether `data` has the same bits everywhere.
bool same_bits_everywhere(std::span<const float> data) {
  const std::uint64_t mine = fingerprint(data);
  std::uint64_t largest = 0;
  std::uint64_t smallest = 0;
  MPI_CHECK(MPI_Allreduce(&mine, &largest, 1, MPI_UINT64_T, MPI_MAX, world().get()));
  MPI_CHECK(MPI_Allreduce(&mine, &smallest, 1, MPI_UINT64_T, MPI_MIN, world().get()));
  return largest == smallest;
}

}  // namespace

TEST_CASE("chunks cover the tensor once, in order, and differ by one element at most") {
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
  CHECK(chunk_range(10, 4, -1).begin == chunk_range(10, 4, 3).begin);
  CHECK(chunk_range(10, 4, -5).begin == chunk_range(10, 4, 3).begin);
  CHECK(chunk_range(10, 4, 4).begin == 0);
}

TEST_CASE("after the reduce-scatter rank r holds the finished chunk r") {
  for (const std::size_t count : tricky_sizes()) {
    std::vector<float> data = my_numbers(count);
    ring_reduce_scatter<float>(world(), data, ReduceOp::sum);
    const ChunkRange mine = chunk_range(count, world().size(), world().rank());
    const auto wrong = count_wrong(window<float>(data, mine),
                                   [&](std::size_t i) { return sum_of_all(mine.begin + i); });
    CHECK(wrong == 0);
  }
}

TEST_CASE("the all-gather brings every rank's chunk to all") {
  for (const std::size_t count : tricky_sizes()) {
    std::vector<float> data(count, std::numeric_limits<float>::quiet_NaN());
    const ChunkRange mine = chunk_range(count, world().size(), world().rank());
    for (std::size_t i = mine.begin; i < mine.begin + mine.count; ++i) {
      data[i] = static_cast<float>(3 * i + 1);
    }
    ring_all_gather<float>(world(), data);
    CHECK(count_wrong(data, [](std::size_t i) { return static_cast<double>(3 * i + 1); }) == 0);
  }
}

TEST_CASE("every algorithm sums, averages and finds the largest, at every size") {
  const double size = world().size();
  for (const auto& [name, algorithm] : kAllReduceAlgorithms) {
    for (const std::size_t count : tricky_sizes()) {
      INFO(name << ", " << count << " elements");
      std::vector<float> sum = my_numbers(count);
      all_reduce<float>(world(), sum, ReduceOp::sum, algorithm);
      CHECK(count_wrong(sum, sum_of_all) == 0);

      std::vector<float> avg = my_numbers(count);
      all_reduce<float>(world(), avg, ReduceOp::avg, algorithm);
      const auto mean = [&](std::size_t i) { return sum_of_all(i) / size; };
      CHECK(count_wrong(avg, mean, 1.2e-7) == 0);

      std::vector<float> max = my_numbers(count);
      all_reduce<float>(world(), max, ReduceOp::max, algorithm);
      const auto largest = [&](std::size_t i) { return tracer_number(world().size() - 1, i); };
      CHECK(count_wrong(max, largest) == 0);
    }
  }
}

TEST_CASE("every rank's share is counted exactly once") {
  // Each rank adds 16^rank, so that digit r of the sum says how often rank r was counted.
  for (const auto& [name, algorithm] : kAllReduceAlgorithms) {
    for (const std::size_t count : tricky_sizes()) {
      std::vector<std::uint64_t> data(count, std::uint64_t{1} << (4 * world().rank()));
      all_reduce<std::uint64_t>(world(), data, ReduceOp::sum, algorithm);
      std::uint64_t each_once = 0;
      for (int rank = 0; rank < world().size(); ++rank)
        each_once |= std::uint64_t{1} << (4 * rank);
      INFO(name << ", " << count << " elements");
      CHECK(data == std::vector<std::uint64_t>(count, each_once));
    }
  }
}

TEST_CASE(
    "all ranks end with the same bits, although floating-point sums depend on the order") {
  for (const auto& [name, algorithm] : kAllReduceAlgorithms) {
    for (const std::size_t count : tricky_sizes()) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
        Generator generator(static_cast<std::uint64_t>(world().rank()));
        std::vector<float> data(count);
        fill_normal(data, generator);
        all_reduce<float>(world(), data, op, algorithm);
        INFO(name << ", " << count << " elements");
        REQUIRE(all_ranks(same_bits_everywhere(data)));
      }
    }
  }
}

TEST_CASE("a NaN on one rank reaches all, also through max") {
  for (const auto& [name, algorithm] : kAllReduceAlgorithms) {
    if (algorithm == AllReduceAlgorithm::mpi) continue;  // MPI_MAX leaves NaN undefined
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
      for (int sick = 0; sick < world().size(); ++sick) {
        std::vector<float> data = my_numbers(40);
        if (world().rank() == sick) data[7] = std::numeric_limits<float>::quiet_NaN();
        all_reduce<float>(world(), data, op, algorithm);
        INFO(name << ", NaN from rank " << sick);
        CHECK(std::isnan(data[7]));
        CHECK_FALSE(std::isnan(data[8]));
      }
    }
  }
}

TEST_CASE("the average of whole numbers is refused on all ranks, before any message") {
  for (const auto& [name, algorithm] : kAllReduceAlgorithms) {
    INFO(name);
    std::vector<std::int32_t> data(5, 1);
    CHECK_THROWS_AS(all_reduce<std::int32_t>(world(), data, ReduceOp::avg, algorithm), Error);
  }
}

TEST_CASE("auto chooses by size and ranks, few messages for small tensors") {
  CHECK(choose_all_reduce(4, 4) == AllReduceAlgorithm::recursive_doubling);
  CHECK(choose_all_reduce(16U << 20, 4) == AllReduceAlgorithm::ring);
  for (const auto& [name, algorithm] : kAllReduceAlgorithms)
    CHECK(to_string(algorithm) == name);
}

TEST_CASE("registered memory is aligned for numbers and can be reduced") {
  const Tensor tensor = allocate_registered({5, 3}, Device{});
  CHECK(tensor.numel() == 15);
  fill_tracer_numbers(tensor.span(), world().rank());
  all_reduce<float>(world(), tensor.span(), ReduceOp::sum);
  CHECK(count_wrong(tensor.span(), sum_of_all) == 0);
}
