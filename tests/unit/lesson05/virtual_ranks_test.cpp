// Lesson 5, --deterministic: which virtual ranks each process simulates, and with which
// samples.
#include "05_ddp_training/deterministic/virtual_ranks.hpp"
#include "tests/support/mpi_test.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace dist;
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

TEST_CASE("the ranks that a process plays take their batches in turn", "[deterministic]") {
  for (const std::size_t size : {8U, 9U, 15U, 100U, 203U}) {
    for (const bool drop_last : {false, true}) {
      for (const std::size_t batch : {1U, 3U, 5U, 30U}) {
        for (const std::size_t accumulate : {1U, 3U}) {
          for (const int processes : {1, 2, 4, 8}) {
            for (int process = 0; process < processes; ++process) {
              CAPTURE(size, drop_last, batch, accumulate, processes, process);
              const SamplerOptions options{.shuffle = true, .seed = 3, .drop_last = drop_last};
              const VirtualRanks ranks(kRanks, processes, process);
              const BatchPlan plan(batch, drop_last, accumulate);
              // Also if a run resumes in mid-epoch, after any step.
              const std::size_t total =
                  DistributedSampler(size, kRanks, 0, options).total_size();
              const std::size_t step = batch * accumulate * kRanks;
              for (std::size_t taken = 0; taken <= total; taken += step) {
                std::vector<std::vector<BatchSamples>> of_rank;
                for (const int rank : ranks.local()) {
                  DistributedSampler alone(size, kRanks, rank, options);
                  alone.set_epoch(7);
                  of_rank.push_back(plan.divide(alone.indices_after(taken)));
                }
                const auto batches = batches_in_turn(size, ranks, plan, options, 7, taken);
                bool as_dealt = batches.size() == of_rank[0].size() * of_rank.size();
                std::size_t part = 0;
                for (std::size_t i = 0; as_dealt && i < batches.size(); ++i) {
                  const auto& [own, place] = of_rank[i % of_rank.size()].at(i / of_rank.size());
                  const Batch::Place& got = batches[i].place;
                  as_dealt = batches[i].indices == own && got.part == part &&
                             got.parts == place.parts * of_rank.size() &&
                             got.accumulate == place.accumulate &&
                             got.ends_epoch == (i + 1 == batches.size());
                  part = got.ends_step() ? 0 : part + 1;
                }
                CHECK(as_dealt);
                CHECK(part == 0);
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("without virtual ranks, the batches in turn are those of the distributed sampler",
          "[deterministic]") {
  for (const bool drop_last : {false, true}) {
    const SamplerOptions options{.shuffle = true, .seed = 5, .drop_last = drop_last};
    DistributedSampler plain(101, world().size(), world().rank(), options);
    const auto in_turn = [&](std::uint64_t epoch, std::size_t taken) {
      return batches_in_turn(101, VirtualRanks(world()), {101, false}, options, epoch, taken);
    };
    for (const std::uint64_t epoch : {0U, 1U, 2U}) {
      plain.set_epoch(epoch);
      for (const std::size_t taken : {0U, 12U, 50U}) {
        REQUIRE(in_turn(epoch, taken).size() == 1);
        CHECK(in_turn(epoch, taken)[0].indices == plain.indices_after(taken));
      }
      CHECK(in_turn(epoch, plain.total_size()).empty());
    }
  }
}
