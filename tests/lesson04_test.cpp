// Lesson 4: which samples each rank takes, and the data sets they are taken from.
//
// The indices and the synthetic data are compared with real PyTorch's (tests/golden). The
// loaders are tested in lesson04_loader_test.cpp, files in lesson04_idx_test.cpp.
#include "tests/support/lesson04.hpp"

#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/coverage.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "04_distributed_sampler/in_memory_dataset.hpp"
#include "04_distributed_sampler/weighted_mean.hpp"
#include "common/hash.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

using namespace dist;
using dist::test::all_ranks;
using dist::test::Indices;
using dist::test::numbered;
using dist::test::world;

namespace {

// Bind the result to a name: a loop over golden(...).at(...) would walk a dead temporary.
nlohmann::json golden(const std::string& file) {
  std::ifstream stream(std::string(GOLDEN_DIR) + "/" + file);
  return nlohmann::json::parse(stream);
}

// SHA-256 of any numbers: dist::sha256 takes floats, so their bytes pose as floats.
template <class T>
std::string hash_of(const std::vector<T>& values) {
  const std::size_t size = values.size() * sizeof(T);
  std::vector<float> bytes(size / sizeof(float));
  if (size % sizeof(float) != 0) return "not whole floats";
  if (size != 0) std::memcpy(bytes.data(), values.data(), size);
  return sha256(bytes);
}

std::vector<std::int64_t> as_int64(const std::vector<std::size_t>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("the sampler gives PyTorch's indices to every rank of every golden world") {
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
        CHECK(hash_of(as_int64(got)) == entry.at("sha256_i64").at(r).get<std::string>());
        const auto first = entry.at("first8").at(r).get<Indices>();
        CHECK(std::ranges::equal(std::span(got).first(first.size()), first));
      }
    }
  }
}

TEST_CASE("a rank that is not in the world is refused") {
  CHECK_THROWS_AS(DistributedSampler(10, 4, 4), Error);
  CHECK_THROWS_AS(DistributedSampler(10, 4, -1), Error);
  CHECK_THROWS_AS(DistributedSampler(10, 0, 0), Error);
  CHECK_THROWS_AS(DistributedSampler(10, -2, -3), Error);
}

TEST_CASE("too few samples leave empty shards, or are repeated") {
  CHECK(DistributedSampler(0, 3, 1).indices().empty());
  CHECK(DistributedSampler(0, 3, 1, {.drop_last = true}).indices().empty());
  CHECK(DistributedSampler(2, 5, 1, {.drop_last = true}).indices().empty());
  CHECK(DistributedSampler(2, 5, 1, {.drop_last = true}).total_size() == 0);
  CHECK(DistributedSampler(2, 5, 3, {.shuffle = false}).indices() == Indices{1});
}

TEST_CASE("the shards of all ranks cover the data, counted over the ranks themselves") {
  const auto ranks = static_cast<std::size_t>(world().size());
  for (const std::size_t n :
       {std::size_t{1}, ranks, ranks + 1, 4 * ranks - 1, std::size_t{997}}) {
    for (const bool drop_last : {false, true}) {
      CAPTURE(n, drop_last);
      DistributedSampler sampler(n, world().size(), world().rank(), {true, 5, drop_last});
      sampler.set_epoch(3);
      std::vector<std::int32_t> taken(n, 0);
      for (const std::size_t i : sampler.indices()) {
        CHECK(i < n);
        if (i < n) ++taken[i];  // no exception: the others wait for this rank below
      }
      all_reduce<std::int32_t>(world(), taken, ReduceOp::sum);

      // Seats are handed out in the order of the permutation, round and round.
      Generator generator(5 + 3);
      const Indices order = randperm(n, generator);
      const std::size_t seats = drop_last ? n / ranks * ranks : (n + ranks - 1) / ranks * ranks;
      std::vector<std::int32_t> expected(n, 0);
      for (std::size_t seat = 0; seat < seats; ++seat) ++expected[order[seat % n]];
      CHECK(taken == expected);

      std::vector<std::int64_t> counts{static_cast<std::int64_t>(sampler.num_samples()),
                                       -static_cast<std::int64_t>(sampler.num_samples())};
      all_reduce<std::int64_t>(world(), counts, ReduceOp::max);
      CHECK(counts[0] == -counts[1]);  // the largest is the smallest: all are equal
    }
  }
}

TEST_CASE("a shard needs no message: one rank alone answers for all") {
  const auto of = [](int rank) {
    DistributedSampler sampler(101, world().size(), rank, {.seed = 9});
    sampler.set_epoch(2);
    return sampler.indices();
  };
  // What rank 0 works out for rank r, while the others do nothing, against rank r's own answer.
  const std::size_t each = of(0).size();
  std::vector<std::int64_t> table(each * static_cast<std::size_t>(world().size()), 0);
  std::vector<std::int64_t> predicted = table;
  const auto write = [&](std::vector<std::int64_t>& into, int rank) {
    std::ranges::copy(of(rank), into.begin() + static_cast<std::ptrdiff_t>(each) * rank);
  };
  write(table, world().rank());
  if (world().rank() == 0) {
    for (int rank = 0; rank < world().size(); ++rank) write(predicted, rank);
  }
  all_reduce<std::int64_t>(world(), table, ReduceOp::sum);
  all_reduce<std::int64_t>(world(), predicted, ReduceOp::sum);
  REQUIRE(all_ranks(table == predicted));
}

TEST_CASE("set_epoch changes the order, and an epoch replays without it") {
  DistributedSampler sampler(60, world().size(), world().rank());
  const Indices zero = sampler.indices();
  CHECK(sampler.indices() == zero);
  sampler.set_epoch(1);
  CHECK(sampler.indices() != zero);
  sampler.set_epoch(0);
  CHECK(sampler.indices() == zero);
  DistributedSampler in_order(60, world().size(), world().rank(), {.shuffle = false});
  const Indices first = in_order.indices();
  in_order.set_epoch(1);
  CHECK(in_order.indices() == first);
}

TEST_CASE("an exact shard of a rank beyond the world is refused") {
  CHECK_THROWS_AS(exact_shard(5, 4, 4), Error);
  CHECK_THROWS_AS(exact_shard(5, 0, 0), Error);
}

TEST_CASE("exact shards hold every sample once") {
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

TEST_CASE("an epoch goes on in its middle as if it had not been left") {
  for (const std::size_t n : {0U, 1U, 2U, 13U, 24U, 25U, 100U}) {
    for (const int replicas : {1, 2, 3, 4, 7, 30}) {
      for (const bool drop_last : {false, true}) {
        for (int rank = 0; rank < replicas; ++rank) {
          CAPTURE(n, replicas, drop_last, rank);
          DistributedSampler sampler(n, replicas, rank, {true, 3, drop_last});
          sampler.set_epoch(2);
          const Indices all = sampler.indices();
          for (std::size_t done = 0; done <= all.size(); ++done) {
            const Indices rest(all.begin() + static_cast<std::ptrdiff_t>(done), all.end());
            CHECK(sampler.indices_after(done * static_cast<std::size_t>(replicas)) == rest);
          }
        }
      }
    }
  }
}

TEST_CASE("an epoch left on p ranks goes on, on q ranks, with the samples not yet taken") {
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
          // Padding alone repeats, dropping alone leaves out.
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

TEST_CASE("more samples than an epoch has cannot have been taken") {
  const DistributedSampler sampler(10, 4, 1);
  CHECK(sampler.indices_after(12).empty());  // padded: 12 seats
  CHECK_THROWS_AS(sampler.indices_after(13), Error);
  CHECK(DistributedSampler(10, 4, 1, {.drop_last = true}).indices_after(10).empty());
  CHECK_THROWS_AS(DistributedSampler(10, 4, 1, {.drop_last = true}).indices_after(11), Error);
}

TEST_CASE("coverage counts who was taken how often") {
  // Every rank takes sample 0 and its own; rank 0 takes one more.
  const auto ranks = static_cast<std::size_t>(world().size());
  const auto me = static_cast<std::size_t>(world().rank());
  Indices mine{0, 1 + me};
  if (me == 0) mine.push_back(ranks + 2);
  const Coverage seen = count_coverage(world(), ranks + 3, mine);
  CHECK(seen.taken == 2 * ranks + 1);
  CHECK(seen.fewest == (ranks == 1 ? 3U : 2U));
  CHECK(seen.most == 3);
  CHECK(seen.once == ranks + 1 + (ranks == 1 ? 1 : 0));
  CHECK(seen.again == (ranks == 1 ? 0U : 1U));
  CHECK(seen.never == 1);
  CHECK(seen.even == (ranks == 1));
  CHECK(count_coverage(world(), 3, {0, 1, 2}).even);
  CHECK(count_coverage(world(), 0, {}).taken == 0);
}

TEST_CASE("the mean over samples is that of one process, to the bit, for any shards") {
  // Right answers: whole numbers, whose sum does not depend on its order.
  for (const std::size_t n : {1U, 2U, 10U, 10'001U}) {
    std::size_t right = 0;
    for (std::size_t i = 0; i < n; ++i) right += i % 3 == 0 ? 1 : 0;
    const double truth = static_cast<double>(right) / static_cast<double>(n);

    const Indices mine = exact_shard(n, world().size(), world().rank());
    const auto own = static_cast<double>(
        std::ranges::count_if(mine, [](std::size_t i) { return i % 3 == 0; }));
    CHECK(mean_over_samples(world(), own, mine.size()) == truth);

    // As uneven as can be: all on the last rank.
    const bool last = world().rank() == world().size() - 1;
    CHECK(mean_over_samples(world(), last ? static_cast<double>(right) : 0.0, last ? n : 0) ==
          truth);
  }
  CHECK(std::isnan(mean_over_samples(world(), 0.0, 0)));
}

TEST_CASE("a sample weighs the same on a rank with few of them") {
  // Rank r holds r + 1 samples, each worth r: the weighted mean is sum r (r + 1) / sum (r + 1),
  // the mean of means (size - 1) / 2.
  const auto rank = static_cast<double>(world().rank());
  const auto size = static_cast<double>(world().size());
  const double sum = rank * (rank + 1);
  const double truth = 2 * (size - 1) / 3;  // the two sums in closed form
  const double mean =
      mean_over_samples(world(), sum, static_cast<std::uint64_t>(world().rank() + 1));
  CHECK(std::abs(mean - truth) < 1e-12);
  if (world().size() > 1) CHECK(std::abs(mean - (size - 1) / 2) > 0.1);
  // Counts past float's 2^24: a sum in float would lose the odd sample.
  constexpr std::uint64_t kMany = (std::uint64_t{1} << 24) + 1;
  const auto many = static_cast<double>(kMany);
  CHECK(mean_over_samples(world(), many, kMany) == 1.0);
  CHECK(mean_over_samples(world(), many - 1, kMany) == (many - 1) / many);
}

TEST_CASE("a tensor data set and a subset give their rows and labels") {
  const TensorDataset whole = numbered(10, 2);
  const Subset part(whole, 4, 3);
  CHECK(whole.size() == 10);
  CHECK(whole.classes() == 7);
  CHECK(part.size() == 3);
  CHECK(part.features() == 2);
  CHECK(part.classes() == 7);
  std::vector<float> row(2);
  CHECK(whole.get(9, row) == 27 % 7);
  CHECK(row == std::vector<float>{900, 901});
  CHECK(part.get(2, row) == 18 % 7);
  CHECK(row == std::vector<float>{600, 601});
  const Subset inner(part, 1, 1);
  CHECK(inner.get(0, row) == 15 % 7);
  CHECK(row == std::vector<float>{500, 501});
}

TEST_CASE("synthetic data are PyTorch's, drawn after the model's weights") {
  const auto file = golden("training.json");
  for (const auto& run : file.at("runs")) {
    const auto layers = run.at("layers").get<Indices>();
    const auto n = run.at("n").get<std::size_t>();
    CAPTURE(layers, n);
    Generator generator(run.at("seed").get<std::uint64_t>());
    for (std::size_t l = 0; l + 1 < layers.size(); ++l) {
      std::vector<float> weight(layers[l] * layers[l + 1]);
      std::vector<float> bias(layers[l + 1]);
      init_linear(weight, bias, layers[l], generator);
      const auto& want = run.at("init_params");
      CHECK(sha256(weight) == want.at(2 * l).at("sha256_f32").get<std::string>());
      CHECK(sha256(bias) == want.at(2 * l + 1).at("sha256_f32").get<std::string>());
    }
    const auto classes = run.at("classes").get<std::size_t>();
    const TensorDataset data = synthetic_dataset(n, layers[0], classes, generator);
    CHECK(data.size() == n);
    CHECK(data.features() == layers[0]);
    CHECK(data.classes() == classes);
    std::vector<float> x(n * layers[0]);
    std::vector<std::int64_t> y;
    for (std::size_t i = 0; i < n; ++i) {
      y.push_back(data.get(i, std::span(x).subspan(i * layers[0], layers[0])));
    }
    CHECK(sha256(x) == run.at("x").at("sha256_f32").get<std::string>());
    if (run.at("y").contains("values")) {
      CHECK(y == run.at("y").at("values").get<std::vector<std::int64_t>>());
    } else {
      CHECK(hash_of(y) == run.at("y").at("sha256_i64").get<std::string>());
    }
  }
}
