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
  struct Job {
    std::size_t samples, batch, accumulate;
  };
  const auto check = [](const Job& job, const VirtualRanks& ranks, bool drop_last) {
    const SamplerOptions options{.shuffle = true, .seed = 3, .drop_last = drop_last};
    const BatchPlan plan(job.batch, drop_last, job.accumulate);
    const std::size_t total =
        DistributedSampler(job.samples, ranks.count(), 0, options).total_size();
    // Also if a run resumes in mid-epoch, after any step.
    const std::size_t step =
        job.batch * job.accumulate * static_cast<std::size_t>(ranks.count());
    for (std::size_t taken = 0; taken <= total; taken += step) {
      CAPTURE(job.samples, job.batch, job.accumulate, ranks.per_process(), drop_last, taken);
      std::vector<std::vector<BatchSamples>> of_rank;
      for (const int rank : ranks.local()) {
        DistributedSampler alone(job.samples, ranks.count(), rank, options);
        alone.set_epoch(7);
        of_rank.push_back(plan.divide(alone.indices_after(taken)));
      }
      const auto batches = batches_in_turn(job.samples, ranks, plan, options, 7, taken);
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
  };
  for (const Job& job : std::vector<Job>{
           {8, 1, 1}, {9, 3, 1}, {15, 1, 3}, {100, 30, 1}, {203, 5, 1}, {203, 3, 3}}) {
    for (const bool drop_last : {false, true}) {
      for (const int processes : {1, 2, 4, 8}) {
        check(job, VirtualRanks(kRanks, processes, processes - 1), drop_last);
      }
      check(job, VirtualRanks(world()), drop_last);  // one rank each: the usual sampler
    }
  }
}
