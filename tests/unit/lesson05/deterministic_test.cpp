// Lesson 5, --deterministic: the order of additions does not depend on the number of processes.
// The tests of programs compare whole runs.
#include "02_broadcast/fingerprint.hpp"
#include "05_ddp_training/deterministic/deterministic_data_parallel.hpp"
#include "05_ddp_training/deterministic/tree_sum.hpp"
#include "tests/support/device_numbers.hpp"
#include "tests/support/lesson04.hpp"
#include "tests/support/mpi_test.hpp"
#include "tests/support/virtual_ranks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace dist;
using dist::test::all_ranks;
using dist::test::devices;
using dist::test::error_of;
using dist::test::Floats;
using dist::test::group_sizes;
using dist::test::in_groups_of;
using dist::test::kRanks;
using dist::test::played_by;
using dist::test::upload;
using dist::test::world;

// The `count` numbers of virtual rank `rank`. Their sum over the ranks rounds differently in
// every order of addition.
Floats leaf(int rank, std::size_t count, float magnitude = 1.0F) {
  Generator generator(500 + static_cast<std::uint64_t>(rank));
  Floats values(count);
  fill_normal(values, generator);
  for (float& value : values) value *= magnitude;
  return values;
}

// The sum in the order of the tree, with every addition written out.
template <class T>
T sum_of_eight(const std::array<T, 8>& x) {
  const T left = (x[0] + x[4]) + (x[2] + x[6]);
  const T right = (x[1] + x[5]) + (x[3] + x[7]);
  return left + right;
}

Floats sum_of_leaves(std::size_t count, float magnitude = 1.0F) {
  std::vector<Floats> leaves;
  for (int rank = 0; rank < kRanks; ++rank) leaves.push_back(leaf(rank, count, magnitude));
  Floats sum(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::array<float, 8> x{};
    for (std::size_t rank = 0; rank < 8; ++rank) x[rank] = leaves[rank][i];
    sum[i] = sum_of_eight(x);
  }
  return sum;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && fingerprint(a) == fingerprint(b);
}

}  // namespace

TEST_CASE("leaves that arrive one by one are added in pairs", "[deterministic]") {
  const auto added = [](const VirtualRanks& ranks) {
    std::vector<std::string> slots(slots_for(ranks.per_process()));
    for (std::size_t i = 0; i < ranks.per_process(); ++i) {
      slots.at(slot_of(i)) = std::to_string(ranks.local()[i]);
      add_complete_pairs(i, [&](std::size_t into, std::size_t from) {
        std::string pair = "(";
        pair.append(slots.at(into)).append("+").append(slots.at(from)).append(")");
        slots.at(into) = pair;
      });
    }
    return slots.front();
  };
  CHECK(added({8, 1, 0}) == "(((0+4)+(2+6))+((1+5)+(3+7)))");
  CHECK(added({8, 2, 0}) == "((0+4)+(2+6))");
  CHECK(added({8, 2, 1}) == "((1+5)+(3+7))");
  CHECK(added({8, 4, 3}) == "(3+7)");
  CHECK(added({8, 8, 6}) == "6");
  CHECK(added({16, 1, 0}) ==
        "((((0+8)+(4+12))+((2+10)+(6+14)))+(((1+9)+(5+13))+((3+11)+(7+15))))");
  CHECK(slots_for(8) == 4);
  CHECK(slots_for(1) == 1);
}

namespace {

// One Linear(1, count). With a batch of one row, its bias gets exactly the gradient that is
// passed to backward, so gradients can have any values.
struct Funnel {
  Floats wanted;     // the mean over the virtual ranks, divided after adding
  Floats too_early;  // divided before adding, in the same tree
  bool ok = true;

  void run(const Communicator& group, const Stream& stream, std::size_t count,
           float magnitude) {
    Generator generator(1);
    Mlp model({1, count}, generator, stream);
    const auto carrier = make_process_group(Backend::ours, group, stream.device(),
                                            AllReduceAlgorithm::automatic);
    const VirtualRanks ranks = played_by(group);
    DeterministicDataParallel parallel(model, *carrier, stream, ranks);
    const Tensor input = upload(stream, {1.0F}, {1, 1});
    for (int step = 0; step < 2; ++step) {  // the second step must not see the first one's sums
      for (std::size_t i = 0; i < ranks.per_process(); ++i) {
        parallel.forward(input, stream);
        const Tensor gradient =
            upload(stream, leaf(ranks.local()[i], count, magnitude), {1, count});
        parallel.backward(gradient, stream, {.part = i, .parts = ranks.per_process()});
      }
      const CommunicationTimes times = parallel.take_communication().value().times();
      ok = ok && times.total >= 0.0 && times.exposed == times.total;
      ok = ok && same_bits(to_host(stream, model.parameters()[1].grad), wanted);
      if (magnitude == 1.0F) {  // a library may flush subnormal gradients to 0
        ok = ok && same_bits(to_host(stream, model.parameters()[0].grad), wanted);
      }
    }
  }
};

}  // namespace

TEST_CASE("gradients are the tree's sum, divided once, even if they are subnormal",
          "[deterministic][gpu]") {
  constexpr std::size_t kCount = 70'001;  // more than one piece of tree_sum_over_processes
  constexpr float kSubnormal = 40 * std::numeric_limits<float>::denorm_min();
  for (const float magnitude : {1.0F, kSubnormal}) {
    Funnel funnel{.wanted = sum_of_leaves(kCount, magnitude),
                  .too_early = sum_of_leaves(kCount, magnitude / 8)};
    for (float& value : funnel.wanted) value /= 8;
    // Show that this test can fail: for ordinary gradients both orders agree, for tiny ones
    // they do not.
    CHECK(same_bits(funnel.too_early, funnel.wanted) == (magnitude == 1.0F));
    for (const Device device : devices()) {
      for (const int size : group_sizes()) {
        CAPTURE(magnitude, to_string(device), size);
        in_groups_of(size, [&](const Communicator& group) {
          funnel.run(group, Stream(device), kCount, magnitude);
        });
        REQUIRE(all_ranks(funnel.ok));
      }
    }
  }
}

TEST_CASE("a step with a wrong number of batches is refused", "[deterministic]") {
  const Stream stream(Device{});
  Generator generator(1);
  Mlp model({1, 2}, generator, stream);
  const auto carrier =
      make_process_group(Backend::ours, world(), Device{}, AllReduceAlgorithm::automatic);
  DeterministicDataParallel parallel(model, *carrier, stream, VirtualRanks(world()));
  const Tensor gradient = upload(stream, {1.0F, 2.0F}, {1, 2});
  CHECK(error_of([&] { parallel.backward(gradient, stream, {.part = 0, .parts = 2}); }) ==
        "a step has 1 batches on this process, not 2");
}

TEST_CASE("the gradients' tree also averages the loss, and stop requests reach all ranks",
          "[deterministic]") {
  const Stream stream(Device{});
  const auto number = [](int rank) { return std::ldexp(1.0, 10 * rank) + 1.0 / 3.0; };
  std::array<double, 8> all{};
  for (int rank = 0; rank < kRanks; ++rank) all[static_cast<std::size_t>(rank)] = number(rank);
  for (const int size : group_sizes()) {
    in_groups_of(size, [&](const Communicator& group) {
      Generator generator(1);
      Mlp model({1, 2}, generator, stream);
      const auto carrier =
          make_process_group(Backend::ours, group, Device{}, AllReduceAlgorithm::ring);
      const VirtualRanks ranks = played_by(group);
      DeterministicDataParallel parallel(model, *carrier, stream, ranks);
      std::vector<double> mine;
      for (const int rank : ranks.local()) mine.push_back(number(rank));
      const bool asked = group.rank() == group.size() - 1;
      std::array<double, 2> numbers{0.0, asked ? 1.0 : 0.0};
      parallel.average(mine, numbers, stream);
      CHECK(numbers[0] == sum_of_eight(all) / 8);
      CHECK(numbers[1] > 0);
    });
  }
}
