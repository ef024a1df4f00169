// Lesson 5, --deterministic: which virtual ranks each process simulates, and with which
// samples.
#include "04_distributed_sampler/data_loader.hpp"
#include "05_ddp_training/deterministic/virtual_ranks.hpp"
#include "tests/support/lesson04.hpp"
#include "tests/support/mpi_test.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace dist;
using dist::test::Indices;
using dist::test::world;

constexpr int kRanks = VirtualRanks::kCount;

TEST_CASE("virtual ranks are assigned so that neighbours form pairs of the tree",
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
  CHECK(local(7, 7, 6) == List{6});  // without virtual ranks
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

TEST_CASE("the virtual sampler gives the samples of eight samplers, in the order of steps",
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

            // Resume in mid-epoch after any step: exactly the unused part of the list remains.
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

TEST_CASE("without virtual ranks the virtual sampler equals the distributed sampler",
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
