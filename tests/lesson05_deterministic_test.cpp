// Lesson 5, --deterministic: who plays which ranks, in which order is added, and that nothing
// of a run depends on the number of processes.
//
// Groups of 1, 2, 4 and 8 of the ranks of this test run the same training, one size after the
// other, and must agree after every step.
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "05_ddp_training/advanced/deterministic/deterministic_data_parallel.hpp"
#include "05_ddp_training/advanced/deterministic/tree_sum.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/optimizer.hpp"
#include "05_ddp_training/trainer/across_ranks.hpp"
#include "05_ddp_training/trainer/micro_batches.hpp"
#include "common/hash.hpp"
#include "tests/support/device_numbers.hpp"
#include "tests/support/lesson04.hpp"
#include "tests/support/mpi_test.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace dist;
using dist::test::all_ranks;
using dist::test::devices;
using dist::test::error_of;
using dist::test::Floats;
using dist::test::Indices;
using dist::test::upload;
using dist::test::world;

constexpr int kRanks = VirtualRanks::kCount;

// Called on all ranks: test(group) on each whole group of so many, where there is one.
template <class Test>
void in_groups_of(int size, Test test) {
  const Communicator group = world().split(world().rank() / size, world().rank());
  if (group.size() == size) test(group);
}

std::vector<int> group_sizes() {
  std::vector<int> sizes;
  for (const int size : {1, 2, 4, 8}) {
    if (size <= world().size()) sizes.push_back(size);
  }
  return sizes;
}

VirtualRanks played_by(const Communicator& group) {
  return {kRanks, group.size(), group.rank()};
}

// `count` numbers of virtual rank `rank`, whose sum rounds differently in every order.
Floats leaf(int rank, std::size_t count, float magnitude = 1.0F) {
  Generator generator(500 + static_cast<std::uint64_t>(rank));
  Floats values(count);
  fill_normal(values, generator);
  for (float& value : values) value *= magnitude;
  return values;
}

// The tree, written out.
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

TEST_CASE("virtual ranks are shared out so that neighbours are pairs of the tree",
          "[deterministic]") {
  using List = std::vector<int>;
  const auto local = [](int count, int processes, int process) {
    const VirtualRanks ranks(count, processes, process);
    CHECK(ranks.count() == count);
    CHECK(ranks.per_process() == ranks.local().size());
    return List(ranks.local().begin(), ranks.local().end());
  };
  CHECK(local(8, 1, 0) == List{0, 4, 2, 6, 1, 5, 3, 7});
  CHECK(local(8, 2, 0) == List{0, 4, 2, 6});
  CHECK(local(8, 2, 1) == List{1, 5, 3, 7});
  CHECK(local(8, 4, 0) == List{0, 4});
  CHECK(local(8, 4, 3) == List{3, 7});
  CHECK(local(8, 8, 5) == List{5});
  CHECK(local(7, 7, 6) == List{6});  // no virtual ranks at all
  CHECK(local(1, 1, 0) == List{0});
  const VirtualRanks usual(world());
  CHECK(usual.count() == world().size());
  CHECK(List(usual.local().begin(), usual.local().end()) == List{world().rank()});
  for (const auto& [count, processes, process] :
       {std::array{8, 3, 0}, {6, 2, 0}, {8, 16, 0}, {8, 0, 0}, {8, 2, 2}, {8, 2, -1}}) {
    CAPTURE(count, processes, process);
    CHECK_THROWS_AS(VirtualRanks(count, processes, process), Error);
  }
}

TEST_CASE("the virtual sampler deals what eight samplers deal, in the order of the steps",
          "[deterministic]") {
  for (const std::size_t size : {8U, 9U, 15U, 100U, 203U}) {
    for (const bool drop_last : {false, true}) {
      for (const std::size_t batch : {1U, 3U, 5U, 30U}) {
        for (const int processes : {1, 2, 4, 8}) {
          for (int process = 0; process < processes; ++process) {
            CAPTURE(size, drop_last, batch, processes, process);
            const SamplerOptions options{.shuffle = true, .seed = 3, .drop_last = drop_last};
            const VirtualRanks ranks(kRanks, processes, process);
            VirtualSampler sampler(size, ranks, batch, options);
            sampler.set_epoch(7);
            const Indices list = sampler.indices();
            const std::size_t played = ranks.per_process();
            const BatchPlan plan(batch, false, played);
            bool as_dealt = list.size() == sampler.num_samples();
            std::size_t position = 0;
            const std::size_t steps = plan.batches(list.size()) / played;
            for (std::size_t step = 0; step < steps; ++step) {
              for (const int rank : ranks.local()) {
                DistributedSampler alone(size, kRanks, rank, options);
                alone.set_epoch(7);
                CHECK(sampler.total_size() == alone.total_size());
                const Indices whole = alone.indices();
                const BatchPlan of_rank(batch, false);
                as_dealt = as_dealt && steps == of_rank.batches(whole.size());
                if (!as_dealt) break;
                as_dealt = std::ranges::equal(plan.samples_of(list, position++),
                                              of_rank.samples_of(whole, step));
              }
            }
            CHECK(as_dealt);

            // Going on in mid-epoch: the rest of the list, wherever a step of all ends.
            for (std::size_t step = 0; step <= steps; ++step) {
              const std::size_t taken = std::min(step * batch * kRanks, sampler.total_size());
              const auto done =
                  static_cast<std::ptrdiff_t>(taken / static_cast<std::size_t>(processes));
              CHECK(sampler.indices_after(taken) == Indices(list.begin() + done, list.end()));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("without virtual ranks the virtual sampler is the distributed one",
          "[deterministic]") {
  for (const bool drop_last : {false, true}) {
    const SamplerOptions options{.shuffle = true, .seed = 5, .drop_last = drop_last};
    VirtualSampler sampler(101, VirtualRanks(world()), 4, options);
    DistributedSampler plain(101, world().size(), world().rank(), options);
    CHECK(sampler.num_samples() == plain.num_samples());
    CHECK(sampler.total_size() == plain.total_size());
    for (const std::uint64_t epoch : {0U, 1U, 2U}) {
      sampler.set_epoch(epoch);
      plain.set_epoch(epoch);
      for (const std::size_t taken : {0U, 12U, 50U, 101U}) {
        CHECK(sampler.indices_after(taken) == plain.indices_after(taken));
      }
    }
  }
  CHECK_THROWS_AS(VirtualSampler(10, VirtualRanks(world()), 0), Error);
}

TEST_CASE("leaves that come one by one are added in pairs", "[deterministic]") {
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

TEST_CASE("the tree over processes goes on where the one within them ends", "[deterministic]") {
  bool ok = true;
  for (const std::size_t count : {std::size_t{1}, std::size_t{997}, std::size_t{140'003}}) {
    const Floats wanted = sum_of_leaves(count);
    Floats in_order(count);
    for (int rank = 0; rank < kRanks; ++rank) {
      const Floats more = leaf(rank, count);
      for (std::size_t i = 0; i < count; ++i) in_order[i] += more[i];
    }
    if (count > 1) CHECK_FALSE(same_bits(in_order, wanted));  // so the order shows
    for (const int size : group_sizes()) {
      in_groups_of(size, [&](const Communicator& group) {
        const VirtualRanks ranks = played_by(group);
        std::vector<Floats> slots(slots_for(ranks.per_process()));
        for (std::size_t i = 0; i < ranks.per_process(); ++i) {
          slots[slot_of(i)] = leaf(ranks.local()[i], count);
          add_complete_pairs(i, [&](std::size_t into, std::size_t from) {
            for (std::size_t k = 0; k < count; ++k) slots[into][k] += slots[from][k];
          });
        }
        tree_sum_over_processes<float>(group, slots[0]);
        ok = ok && same_bits(slots[0], wanted);
      });
    }
  }
  CHECK(ok);

  // The mean of doubles by the same tree.
  const std::array losses{1.0, 1e16, 3.0, -1e16, 6.0, 7e15, 12.0, 13.0};
  const double neighbours_first = ((losses[0] + losses[1]) + (losses[2] + losses[3])) +
                                  ((losses[4] + losses[5]) + (losses[6] + losses[7]));
  CHECK(neighbours_first != sum_of_eight(losses));  // so the order shows
  for (const int size : group_sizes()) {
    in_groups_of(size, [&](const Communicator& group) {
      std::vector<double> mine;
      const VirtualRanks ranks = played_by(group);
      for (const int rank : ranks.local()) {
        mine.push_back(losses[static_cast<std::size_t>(rank)]);
      }
      CHECK(tree_mean(group, mine) == sum_of_eight(losses) / 8);
    });
  }
}

TEST_CASE("a number of processes that makes no pairs is refused", "[deterministic]") {
  const auto add = [] {
    Floats data(3);
    tree_sum_over_processes<float>(world(), data);
  };
  const int size = world().size();
  if (size == 3 || size == 7) {
    CHECK(error_of(add) == "a tree of pairs over " + std::to_string(size) + " processes");
  } else {
    CHECK_NOTHROW(add());
  }
}

namespace {

// One Linear(1, count), whose bias gets exactly the gradient that backward is given for a batch
// of one row: so any numbers can be had as gradients.
struct Funnel {
  Floats wanted;     // mean over the virtual ranks
  Floats too_early;  // every rank's own share of the mean, added up in the same tree
  bool ok = true;

  void run(const Communicator& group, const Stream& stream, std::size_t count,
           float magnitude) {
    Generator generator(1);
    Mlp model({1, count}, generator, stream);
    const auto carrier = make_process_group(Backend::ours, group, stream.device(),
                                            AllReduceAlgorithm::automatic);
    const VirtualRanks ranks = played_by(group);
    const auto parallel =
        make_deterministic_data_parallel(model, *carrier, stream, group, ranks);
    const Tensor input = upload(stream, {1.0F}, {1, 1});
    for (int step = 0; step < 2; ++step) {  // the second must not see the first one's sums
      for (std::size_t i = 0; i < ranks.per_process(); ++i) {
        parallel->forward(input, stream);
        const Tensor gradient =
            upload(stream, leaf(ranks.local()[i], count, magnitude), {1, count});
        if (i + 1 == ranks.per_process()) {
          parallel->backward(gradient, stream);
        } else {
          const auto local = parallel->no_sync();
          parallel->backward(gradient, stream);
        }
      }
      const CommunicationTimes times = parallel->communication_times(stream);
      ok = ok && times.total >= 0.0 && times.exposed == times.total;
      ok = ok && same_bits(to_host(stream, model.parameters()[1].grad), wanted);
      if (magnitude == 1.0F) {  // 1 times the gradient; a library may flush subnormals here
        ok = ok && same_bits(to_host(stream, model.parameters()[0].grad), wanted);
      }
    }
  }
};

}  // namespace

TEST_CASE("gradients are the tree's sum, divided once, also where they are subnormal",
          "[deterministic][gpu]") {
  constexpr std::size_t kCount = 70'001;
  constexpr float kSubnormal = 40 * std::numeric_limits<float>::denorm_min();
  for (const float magnitude : {1.0F, kSubnormal}) {
    Funnel funnel{.wanted = sum_of_leaves(kCount, magnitude),
                  .too_early = sum_of_leaves(kCount, magnitude / 8)};
    for (float& value : funnel.wanted) value /= 8;
    // What is tested can fail: shares divided before the sum are other numbers.
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

TEST_CASE("a step with a batch too few or too many is refused", "[deterministic]") {
  const Stream stream(Device{});
  for (const int size : group_sizes()) {
    if (size == 8) continue;  // one batch is the whole step
    in_groups_of(size, [&](const Communicator& group) {
      Generator generator(1);
      Mlp model({1, 2}, generator, stream);
      const auto carrier =
          make_process_group(Backend::ours, group, Device{}, AllReduceAlgorithm::automatic);
      const auto parallel =
          make_deterministic_data_parallel(model, *carrier, stream, group, played_by(group));
      const Tensor input = upload(stream, {1.0F}, {1, 1});
      const Tensor gradient = upload(stream, {1.0F, 2.0F}, {1, 2});
      const std::string batches = std::to_string(kRanks / size);
      parallel->forward(input, stream);
      CHECK(error_of([&] { parallel->backward(gradient, stream); }) ==
            "a step has " + batches + " batches on this process, and only 1 came");
      CHECK(error_of([&] {
              const auto local = parallel->no_sync();
              for (int i = 0; i <= kRanks; ++i) parallel->backward(gradient, stream);
            }) == "a step has " + batches + " batches on this process, and another one came");
    });
  }
}

namespace {

struct Job {
  std::size_t samples;
  std::size_t global_batch;
  SamplerOptions sampler;
  bool loader_drop_last;
  std::string optimizer;
};

// What a run leaves behind: of each step the fingerprint of all parameters, and the loss.
struct Trajectory {
  std::vector<std::uint64_t> parameters;
  std::vector<double> losses;
  std::vector<std::size_t> rows;  // of all ranks
  double accuracy = 0;
  bool operator==(const Trajectory&) const = default;
};

// Three epochs, as main.cpp has them.
Trajectory train(const Communicator& comm, bool deterministic, const Job& job, Device device) {
  const Stream stream(device);
  Generator generator(100 + static_cast<std::uint64_t>(comm.rank()));  // 0's is everybody's
  const std::vector<std::size_t> widths{20, 33, 17, 5};
  Mlp model(widths, generator, stream);
  Generator of_data(7);
  const TensorDataset dataset =
      synthetic_dataset(job.samples, widths.front(), widths.back(), of_data);
  const auto group =
      make_process_group(Backend::ours, comm, device, AllReduceAlgorithm::automatic);
  const VirtualRanks ranks = deterministic ? played_by(comm) : VirtualRanks(comm);
  const auto ddp = deterministic
                       ? make_deterministic_data_parallel(model, *group, stream, comm, ranks)
                       : make_data_parallel("ddp", model, *group, stream);
  OptimizerOptions options;
  options.name = job.optimizer;
  options.lr = job.optimizer == "sgd" ? 0.05 : 0.01;
  options.momentum = job.optimizer == "sgd" ? 0.9 : 0.0;
  const auto optimizer = make_optimizer(options, model.parameters(), stream);

  const std::size_t played = ranks.per_process();
  const std::size_t batch = job.global_batch / static_cast<std::size_t>(ranks.count());
  VirtualSampler sampler(job.samples, ranks, batch, job.sampler);
  DataLoader loader(dataset, batch, job.loader_drop_last, stream, played);
  const std::size_t batches = loader.batches(sampler.num_samples());
  CrossEntropyLoss loss;
  Trajectory run;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    sampler.set_epoch(epoch);
    MicroBatches step(batches, 1, played);
    for (const Batch& part : loader.over(sampler.indices())) {
      const Tensor logits = ddp->forward(part.inputs, stream);
      step.begin(part.rows());
      loss.forward(logits, part.targets, stream, step.parts());
      if (!step.is_last()) {
        const auto local = ddp->no_sync();
        ddp->backward(loss.grad(), stream);
        step.add_loss(loss.value(stream));
        continue;
      }
      ddp->backward(loss.grad(), stream);
      optimizer->step(options.lr, stream);
      step.add_loss(loss.value(stream));
      run.losses.push_back(deterministic
                               ? tree_mean(comm, step.losses())
                               : over_all_ranks(comm, step.mean_loss(), false).mean_loss);
      run.rows.push_back(step.rows() * static_cast<std::size_t>(comm.size()));
      std::uint64_t hash = 0;
      for (const Parameter& parameter : model.parameters()) {
        hash = fingerprint(to_host(stream, parameter.value), hash);
      }
      run.parameters.push_back(hash);
    }
  }
  run.accuracy = test_accuracy(comm, ranks, model, dataset, stream);
  return run;
}

}  // namespace

TEST_CASE("after every step 1, 2, 4 and 8 processes have the same bits",
          "[deterministic][gpu]") {
  for (const Device device : devices()) {
    for (const std::string optimizer : {"adam", "sgd"}) {
      for (const bool drop_last : {false, true}) {
        for (const bool loader_drop_last : {false, true}) {
          // 203 samples are 26 or 25 for each virtual rank; in batches of 3 or 5 the last one
          // of an epoch is short, or there is none.
          for (const std::size_t global_batch : {24U, 40U}) {
            const SamplerOptions sampler{.shuffle = true, .seed = 2, .drop_last = drop_last};
            const Job job{203, global_batch, sampler, loader_drop_last, optimizer};
            CAPTURE(to_string(device), optimizer, drop_last, loader_drop_last, global_batch);
            Trajectory alone;
            in_groups_of(
                1, [&](const Communicator& self) { alone = train(self, true, job, device); });
            const auto epoch = static_cast<std::ptrdiff_t>(alone.losses.size() / 3);
            CHECK(std::accumulate(alone.losses.end() - epoch, alone.losses.end(), 0.0) <
                  std::accumulate(alone.losses.begin(), alone.losses.begin() + epoch, 0.0));
            const std::size_t of_rank = drop_last ? 25 : 26;
            const std::size_t short_rows = kRanks * of_rank % global_batch;
            CHECK(std::ranges::count(alone.rows, global_batch) ==
                  static_cast<std::ptrdiff_t>(3 * (kRanks * of_rank / global_batch)));
            CHECK(std::ranges::count(alone.rows, short_rows) ==
                  (short_rows == 0 || loader_drop_last ? 0 : 3));
            for (const int size : group_sizes()) {
              bool same = true;
              in_groups_of(size, [&](const Communicator& group) {
                same = train(group, true, job, device) == alone;
              });
              CAPTURE(size);
              REQUIRE(all_ranks(same));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("--deterministic trains as usual, but for the bits", "[deterministic]") {
  // 200 samples and batches of 40 divide by everything, so that all learn from the same.
  const Job job{200, 40, {.shuffle = true, .seed = 2}, false, "sgd"};
  Trajectory usual, fixed;
  in_groups_of(1, [&](const Communicator& self) {
    usual = train(self, false, job, Device{});
    fixed = train(self, true, job, Device{});
  });
  REQUIRE(all_ranks(usual.losses.size() == 15 && fixed.losses.size() == 15));
  for (std::size_t i = 0; i < usual.losses.size(); ++i) {
    CHECK(std::abs(usual.losses[i] - fixed.losses[i]) < 1e-5);
  }
  CHECK(usual.accuracy == fixed.accuracy);
  // And without it the bits do depend on the number of ranks: the test above can fail.
  for (const int size : group_sizes()) {
    if (size == 1) continue;
    in_groups_of(size, [&](const Communicator& group) {
      const Trajectory more = train(group, false, job, Device{});
      CHECK(more.parameters != usual.parameters);
      CHECK(std::abs(more.losses.back() - usual.losses.back()) < 1e-5);
    });
  }
}

TEST_CASE("the cost of determinism is a line", "[deterministic]") {
  const Stream stream(Device{});
  Generator generator(1);
  const Mlp model({1023, 1024}, generator, stream);  // 1 Mi numbers
  CHECK(cost_of_determinism({8, 1, 0}, 3, model) ==
        "deterministic: 8 virtual ranks, 8 on each process; matrix products of 3 rows instead "
        "of 24; 3 more gradient buffers, 12.0 MiB");
  CHECK(cost_of_determinism({8, 4, 1}, 5, model) ==
        "deterministic: 8 virtual ranks, 2 on each process; matrix products of 5 rows instead "
        "of 10; 1 more gradient buffer, 4.0 MiB");
}
