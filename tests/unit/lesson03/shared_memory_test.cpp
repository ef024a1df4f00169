// Lesson 3, advanced: memory that all ranks on a host share, and the conditions under which a
// rank may free it.
#include "03_all_reduce/choice/all_reducer.hpp"
#include "tests/support/tracer_data.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

constexpr auto kShared = AllReduceAlgorithm::shared_memory;

// Returns whether `tensor` is reduced correctly. All ranks must call it.
static bool reduces(AllReducer& reducer, const Tensor& tensor) {
  fill_tracer_numbers(tensor.span(), world().rank());
  reducer.all_reduce(tensor.span(), ReduceOp::sum, kShared);
  return count_wrong(tensor.span(), sum_of_all) == 0;
}

TEST_CASE("if a rank cannot share its memory, all ranks get an error that names the rank") {
  const std::string error =
      error_of([] { const HostMemory memory(world(), std::size_t{1} << 62); });
  CHECK(error.find("rank 0 cannot share 4611686018427387904 bytes of memory") == 0);
}

TEST_CASE("a part of registered memory is reduced in place, and nothing around it changes") {
  AllReducer reducer(world());
  for (const std::size_t begin : {0, 1, 16, 777}) {
    for (const std::size_t count : {1, 100, 3001, 9000}) {
      const Tensor whole = reducer.allocate({10'000});
      std::fill(whole.span().begin(), whole.span().end(), -1.0F);
      world().barrier();
      const Tensor part = whole.narrow(begin, count);
      CHECK(reducer.is_registered(part.data(), part.size_bytes()));
      CHECK_FALSE(reducer.is_registered(part.data(), whole.size_bytes() - 4 * begin + 1));
      CHECK(reduces(reducer, part));
      const auto minus_one = [](float x) { return x == -1.0F; };
      const auto all = whole.span();
      CHECK(std::ranges::all_of(all.first(begin), minus_one));
      CHECK(std::ranges::all_of(all.subspan(begin + count), minus_one));
      world().barrier();
    }
  }
}

TEST_CASE("each rank frees its registered memory independently") {
  std::optional<AllReducer> reducer(world());
  std::vector<Tensor> kept;
  for (int round = 0; round < 20; ++round) {
    Tensor tensor = reducer->allocate({5000});
    CHECK(reduces(*reducer, tensor));
    if (round % world().size() == world().rank()) kept.push_back(tensor);
    const void* const address = tensor.data();
    const bool is_kept = !kept.empty() && kept.back().data() == tensor.data();
    tensor = Tensor();
    CHECK(reducer->is_registered(address, 4) == is_kept);
  }
  reducer.reset();
  for (const Tensor& tensor : kept) CHECK(count_wrong(tensor.span(), sum_of_all) == 0);
}

TEST_CASE("ranks that join one all-reduce with different calls all get an error") {
  if (world().size() == 1) return;
  const bool odd_one = world().rank() == 1;
  AllReducer reducer(world());
  const auto refusal = [&](std::span<float> data, ReduceOp op) {
    return error_of([&] { reducer.all_reduce(data, op, kShared); });
  };
  for (const std::size_t count : {10, 100'000}) {
    INFO(count << " elements");
    std::vector<float> data(count);
    const std::string sizes =
        refusal(std::span(data).first(odd_one ? 3 : count), ReduceOp::sum);
    CHECK(contains(sizes, "called the all-reduce with a different number of elements"));
    CHECK(contains(sizes, "rank 1"));
    CHECK(contains(refusal(data, odd_one ? ReduceOp::max : ReduceOp::sum),
                   "with a different operation"));
  }
  const Tensor tensor = reducer.allocate({5000});
  std::vector<float> own(5000);
  CHECK(contains(refusal(odd_one ? std::span(own) : tensor.span(), ReduceOp::sum),
                 "with a different tensor"));
  CHECK(reduces(reducer, tensor));  // the next call works again
}

TEST_CASE("a rank that waits in vain reports which rank it waits for") {
  if (world().size() == 1) return;
  // All ranks in the opposite order: errors use the numbers that the ranks have in the world.
  const Communicator group = world().split(0, -world().rank());
  SharedMemoryAllReduce shared(group, std::chrono::milliseconds(150));
  if (world().rank() != 1) {
    std::vector<float> data(10);
    const std::string error = error_of([&] { shared.all_reduce<float>(data, ReduceOp::sum); });
    CHECK(contains(error, "waited 150 ms for rank 1, which did not arrive"));
  }
  world().barrier();
}
