// Lesson 4: the data sets that shards are taken from, and counts and means over the shards. The
// synthetic data are compared with those of real PyTorch (tests/golden).
#include "04_distributed_sampler/coverage.hpp"
#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "04_distributed_sampler/weighted_mean.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/lesson04.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("coverage counts how often each sample was taken") {
  // Every rank takes sample 0 and one sample of its own. Rank 0 takes one more.
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

TEST_CASE("for any shards, the mean over samples equals that of one process, bit for bit") {
  // Counts of right answers are whole numbers, so their sum does not depend on the order.
  for (const std::size_t n : {1U, 2U, 10U, 10'001U}) {
    std::size_t right = 0;
    for (std::size_t i = 0; i < n; ++i) right += i % 3 == 0 ? 1 : 0;
    const double truth = static_cast<double>(right) / static_cast<double>(n);

    const Indices mine = exact_shard(n, world().size(), world().rank());
    const auto own = static_cast<double>(
        std::ranges::count_if(mine, [](std::size_t i) { return i % 3 == 0; }));
    CHECK(mean_over_samples(world(), own, mine.size()) == truth);

    // The most uneven case: all samples are on the last rank.
    const bool last = world().rank() == world().size() - 1;
    CHECK(mean_over_samples(world(), last ? static_cast<double>(right) : 0.0, last ? n : 0) ==
          truth);
  }
  CHECK(std::isnan(mean_over_samples(world(), 0.0, 0)));
}

TEST_CASE("a sample has the same weight on every rank, however few samples the rank has") {
  // Rank r holds r + 1 samples with the value r. The weighted mean is
  // sum r (r + 1) / sum (r + 1), and the mean of means is (size - 1) / 2.
  const auto rank = static_cast<double>(world().rank());
  const auto size = static_cast<double>(world().size());
  const double sum = rank * (rank + 1);
  const double truth = 2 * (size - 1) / 3;  // the weighted mean in closed form
  const double mean =
      mean_over_samples(world(), sum, static_cast<std::uint64_t>(world().rank() + 1));
  CHECK(std::abs(mean - truth) < 1e-12);
  if (world().size() > 1) CHECK(std::abs(mean - (size - 1) / 2) > 0.1);
  // A count above 2^24: a float could not hold this odd number.
  constexpr std::uint64_t kMany = (std::uint64_t{1} << 24) + 1;
  const auto many = static_cast<double>(kMany);
  CHECK(mean_over_samples(world(), many, kMany) == 1.0);
  CHECK(mean_over_samples(world(), many - 1, kMany) == (many - 1) / many);
}

TEST_CASE("a tensor data set and a subset return their rows and labels") {
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

TEST_CASE("synthetic data, drawn after the model's weights, match PyTorch's") {
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
