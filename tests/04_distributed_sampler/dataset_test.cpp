// Lesson 4: the data sets that shards are taken from, and means over the shards. The
// synthetic data are compared with those of real PyTorch (tests/golden).
#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "04_distributed_sampler/weighted_mean.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/mpi_test.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("a sample has the same weight on every rank, however few samples the rank has") {
  // Counts of right answers are whole numbers, so the mean is that of one process, bit for bit.
  for (const std::size_t n : {1U, 2U, 10U, 10'001U}) {
    const auto is_right = [](std::size_t i) { return i % 3 == 0; };
    const auto right = static_cast<double>((n + 2) / 3);
    const double truth = right / static_cast<double>(n);
    const Indices mine = exact_shard(n, world().size(), world().rank());
    const auto own = static_cast<double>(std::ranges::count_if(mine, is_right));
    CHECK(mean_over_samples(world(), own, mine.size()) == truth);
    // The most uneven case: all samples are on the last rank.
    const bool last = world().rank() == world().size() - 1;
    CHECK(mean_over_samples(world(), last ? right : 0.0, last ? n : 0) == truth);
  }
  CHECK(std::isnan(mean_over_samples(world(), 0.0, 0)));
  // A count above 2^24: a float could not hold this odd number.
  constexpr std::uint64_t kMany = (std::uint64_t{1} << 24) + 1;
  const auto many = static_cast<double>(kMany);
  CHECK(mean_over_samples(world(), many - 1, kMany) == (many - 1) / many);
}

TEST_CASE("synthetic data, drawn after the model's weights, match PyTorch's", "[one process]") {
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
      CHECK(sha256_of(y) == run.at("y").at("sha256_i64").get<std::string>());
    }
  }
}
