// Lesson 4: which samples each rank takes. The indices are compared with those of real PyTorch
// (tests/golden).
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/mpi_test.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace dist;
using namespace dist::test;

static std::vector<std::int64_t> as_int64(const std::vector<std::size_t>& values) {
  return {values.begin(), values.end()};
}

TEST_CASE("the sampler gives every rank PyTorch's indices, in every case of the golden file",
          "[one process]") {
  const auto file = golden("sampler.json");
  for (const auto& entry : file.at("cases")) {
    const auto n = entry.at("n").get<std::size_t>();
    const auto replicas = entry.at("world").get<int>();
    SamplerOptions options;
    options.shuffle = entry.at("shuffle");
    options.seed = entry.at("seed");
    options.drop_last = entry.at("drop_last");
    for (int rank = 0; rank < replicas; ++rank) {
      CAPTURE(n, replicas, rank, options.shuffle, options.seed, options.drop_last);
      DistributedSampler sampler(n, replicas, rank, options);
      sampler.set_epoch(entry.at("epoch"));
      const Indices got = sampler.indices();
      const auto r = static_cast<std::size_t>(rank);
      CHECK(sampler.num_samples() == entry.at("num_samples").get<std::size_t>());
      CHECK(sampler.total_size() == entry.at("total_size").get<std::size_t>());
      CHECK(got.size() == sampler.num_samples());
      if (entry.contains("indices")) {
        CHECK(got == entry.at("indices").at(r).get<Indices>());
      } else {
        CHECK(sha256_of(as_int64(got)) == entry.at("sha256_i64").at(r).get<std::string>());
      }
    }
  }
}

TEST_CASE("a rank that is not in the world is refused", "[one process]") {
  for (const auto& [replicas, rank] : {std::pair{4, 4}, {4, -1}, {0, 0}, {-2, -3}}) {
    CAPTURE(replicas, rank);
    CHECK_THROWS_AS(DistributedSampler(10, replicas, rank), Error);
    CHECK_THROWS_AS(exact_shard(5, replicas, rank), Error);
  }
}

TEST_CASE("exact shards contain every sample exactly once", "[one process]") {
  for (std::size_t n = 0; n <= 25; ++n) {
    for (int replicas = 1; replicas <= 8; ++replicas) {
      CAPTURE(n, replicas);
      std::vector<int> taken(n, 0);
      std::vector<std::size_t> sizes;
      for (int rank = 0; rank < replicas; ++rank) {
        const Indices shard = exact_shard(n, replicas, rank);
        for (const std::size_t i : shard) ++taken.at(i);
        sizes.push_back(shard.size());
      }
      CHECK(std::ranges::count(taken, 1) == static_cast<std::ptrdiff_t>(n));
      CHECK(*std::ranges::max_element(sizes) - *std::ranges::min_element(sizes) <= 1);
    }
  }
}

TEST_CASE("an epoch resumed at any position continues as if it had not been interrupted",
          "[one process]") {
  for (const std::size_t n : {0U, 1U, 2U, 13U, 24U, 25U, 100U}) {
    for (const int replicas : {1, 2, 3, 7, 30}) {
      for (const bool drop_last : {false, true}) {
        const int rank = replicas / 2;
        CAPTURE(n, replicas, drop_last);
        DistributedSampler sampler(n, replicas, rank, {true, 3, drop_last});
        sampler.set_epoch(2);
        const Indices all = sampler.indices();
        for (std::size_t done = 0; done <= all.size(); ++done) {
          const Indices rest(all.begin() + static_cast<std::ptrdiff_t>(done), all.end());
          CHECK(sampler.indices_after(done * static_cast<std::size_t>(replicas)) == rest);
        }
        const std::size_t end = std::max(n, sampler.total_size());
        CHECK(sampler.indices_after(end).empty());
        CHECK_THROWS_AS(sampler.indices_after(end + 1), Error);
      }
    }
  }
}

TEST_CASE("an epoch begun on p ranks continues on q ranks with the samples not yet taken",
          "[one process]") {
  constexpr std::size_t kSamples = 53, kBatch = 2;
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int q : {1, 2, 3, 4, 8}) {
      for (const bool drop_last : {false, true}) {
        const SamplerOptions options{true, 11, drop_last};
        for (const std::size_t steps : {0U, 1U, 3U}) {
          CAPTURE(p, q, drop_last, steps);
          std::vector<int> times(kSamples, 0);
          for (int rank = 0; rank < p; ++rank) {
            const Indices before = DistributedSampler(kSamples, p, rank, options).indices();
            for (std::size_t i = 0; i < std::min(steps * kBatch, before.size()); ++i) {
              ++times[before[i]];
            }
          }
          const std::size_t taken = steps * kBatch * static_cast<std::size_t>(p);
          const std::size_t rest = kSamples - taken;
          std::size_t after = 0;
          for (int rank = 0; rank < q; ++rank) {
            const DistributedSampler sampler(kSamples, q, rank, options);
            const Indices mine = sampler.indices_after(taken);
            const auto ranks = static_cast<std::size_t>(q);
            CHECK(mine.size() == (drop_last ? rest / ranks : (rest + ranks - 1) / ranks));
            for (const std::size_t i : mine) ++times[i];
            after += mine.size();
          }
          // Only padding repeats samples, and only dropping omits some.
          const auto never = static_cast<std::size_t>(std::ranges::count(times, 0));
          const auto twice = static_cast<std::size_t>(std::ranges::count(times, 2));
          CHECK(never == (drop_last ? rest - after : 0));
          CHECK(twice == (drop_last ? 0 : after - rest));
          CHECK(std::ranges::max(times) <= 2);
        }
      }
    }
  }
}
