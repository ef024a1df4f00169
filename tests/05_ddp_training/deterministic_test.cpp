// Lesson 5, --deterministic: the order of additions does not depend on the number of processes.
// The tests of programs compare whole runs.
#include "05_ddp_training/deterministic/deterministic_data_parallel.hpp"
#include "common/hash.hpp"
#include "tests/support/device_numbers.hpp"

#include <array>
#include <limits>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

constexpr int kRanks = VirtualRanks::kCount;

// Called on all ranks. Runs test(group) in each complete group of the given size.
template <class Test>
void in_groups_of(int size, Test test) {
  const Communicator group = world().split(world().rank() / size, world().rank());
  if (group.size() == size) test(group);
}

// The `count` numbers of virtual rank `rank`. Their sum over the ranks rounds differently in
// every order of addition.
Floats leaf(int rank, std::size_t count, float magnitude) {
  Generator generator(500 + static_cast<std::uint64_t>(rank));
  Floats values(count);
  fill_normal(values, generator);
  for (float& value : values) value *= magnitude;
  return values;
}

// The sum in the order of the tree, with every addition written out.
Floats sum_of_leaves(std::size_t count, float magnitude) {
  std::vector<Floats> x;
  for (int rank = 0; rank < kRanks; ++rank) x.push_back(leaf(rank, count, magnitude));
  Floats sum(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float left = (x[0][i] + x[4][i]) + (x[2][i] + x[6][i]);
    const float right = (x[1][i] + x[5][i]) + (x[3][i] + x[7][i]);
    sum[i] = left + right;
  }
  return sum;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && hash_of(a) == hash_of(b);
}

// One Linear(1, count). With a batch of one row, its bias gets exactly the gradient that is
// passed to backward, so gradients can have any values.
struct Funnel {
  // Any other order of additions has another sum.
  static constexpr std::array<double, kRanks> kLosses{1, 1e16, 0.1, -1e16, 3, 7, 1e-3, 2};
  Floats wanted;  // the mean over the virtual ranks, divided after adding
  bool ok = true;

  void run(const Communicator& group, const Stream& stream, std::size_t count,
           float magnitude) {
    Generator generator(1);
    Mlp model({1, count}, generator, stream);
    const auto carrier = make_process_group(Backend::ours, group, stream.device(),
                                            AllReduceAlgorithm::automatic);
    const VirtualRanks ranks(kRanks, group.size(), group.rank());
    DeterministicDataParallel parallel(model, *carrier, stream, ranks);
    const Buffer<double> loss(1, stream.device());
    parallel.carry({loss.data(), 1});
    const Tensor input = upload(stream, {1.0F}, {1, 1});
    for (int step = 0; step < 2; ++step) {  // the second step must not see the first one's sums
      for (std::size_t i = 0; i < ranks.per_process(); ++i) {
        parallel.forward(input, stream);
        const Tensor gradient =
            upload(stream, leaf(ranks.local()[i], count, magnitude), {1, count});
        const double mine = kLosses.at(static_cast<std::size_t>(ranks.local()[i]));
        copy_bytes(stream, loss.data(), &mine, sizeof mine);
        parallel.backward(gradient, {.part = i, .parts = ranks.per_process()}, stream);
      }
      double mean = 0;
      copy_bytes(stream, &mean, loss.data(), sizeof mean);
      stream.synchronize();
      const auto& x = kLosses;
      ok = ok && 8 * mean == ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
      // A library may flush subnormal gradients to 0. On a GPU, it adds up the bias's, too.
      const auto [weight, bias] = std::pair(model.parameters()[0], model.parameters()[1]);
      if (magnitude == 1.0F) ok = ok && same_bits(to_host(stream, weight.grad), wanted);
      if (magnitude == 1.0F || stream.device().is_cpu()) {
        ok = ok && same_bits(to_host(stream, bias.grad), wanted);
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
    // For ordinary gradients it does not matter whether the division or the additions come
    // first, but for tiny ones it does.
    Funnel funnel{.wanted = sum_of_leaves(kCount, magnitude)};
    for (float& value : funnel.wanted) value /= 8;
    for (const Device device : devices()) {
      for (const int size : {1, 2, 4, 8}) {
        CAPTURE(magnitude, to_string(device), size);
        in_groups_of(size, [&](const Communicator& group) {
          funnel.run(group, Stream(device), kCount, magnitude);
        });
        REQUIRE(all_ranks(funnel.ok));
      }
    }
  }
}
