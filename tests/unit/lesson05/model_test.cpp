// Lesson 5: the loss, compared with plain loops in double precision, and the model's
// parameters; the tests of training compare whole runs with PyTorch's. Every rank draws
// different numbers, so more ranks mean more cases.
#include "05_ddp_training/model/kernels.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "common/buffer.hpp"
#include "common/check.hpp"
#include "tests/support/device_numbers.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

using Targets = std::vector<std::int32_t>;

Targets random_targets(std::size_t count, std::size_t classes, std::uint64_t seed) {
  Generator generator(seed_of_this_rank(seed));
  const auto drawn = randint(0, static_cast<std::int64_t>(classes), count, generator);
  return {drawn.begin(), drawn.end()};
}

// Puts labels into the device's memory, as a DataLoader does.
Buffer<std::int32_t> upload_targets(const Stream& stream, const Targets& targets) {
  Buffer<std::int32_t> labels(targets.size(), stream.device());
  copy_bytes(stream, labels.data(), targets.data(), labels.size_bytes());
  stream.synchronize();
  return labels;
}

struct CrossEntropy {
  Numbers losses;    // one per row
  Numbers gradient;  // of the mean loss
};

CrossEntropy cross_entropy(const Numbers& logits, const Targets& targets) {
  const std::size_t classes = logits.size() / targets.size();
  CrossEntropy result;
  for (std::size_t r = 0; r < targets.size(); ++r) {
    const std::span row = std::span(logits).subspan(r * classes, classes);
    const double largest = std::ranges::max(row);
    double sum = 0;
    for (const double logit : row) sum += std::exp(logit - largest);
    const auto target = static_cast<std::size_t>(targets[r]);
    result.losses.push_back(std::log(sum) - (row[target] - largest));
    for (std::size_t c = 0; c < classes; ++c) {
      const double error = std::exp(row[c] - largest) / sum - (c == target ? 1.0 : 0.0);
      result.gradient.push_back(error / static_cast<double>(targets.size()));
    }
  }
  return result;
}

}  // namespace

TEST_CASE("softmax cross entropy is exact and does not overflow", "[gpu]") {
  const std::size_t rows = 6;
  const std::size_t classes = 10;
  Floats logits = noise(rows * classes, 5);
  Targets targets = random_targets(rows, classes, 6);
  for (std::size_t c = 0; c < classes; ++c) {
    logits[1 * classes + c] += 3000.0F;  // exp of any of these logits is infinite
    logits[2 * classes + c] -= 3000.0F;  // exp of any of these is zero
    logits[3 * classes + c] *= 30.0F;
  }
  logits[4 * classes + 9] = 500.0F;  // confident but wrong: a large loss
  targets[4] = 0;
  logits[5 * classes + 2] = 500.0F;  // confident and right
  targets[5] = 2;
  const Floats got = everywhere(
      [&](const Stream& stream) {
        const Tensor on_device = upload(stream, logits, {rows, classes});
        const auto labels = upload_targets(stream, targets);
        CrossEntropyLoss loss;
        Floats result;  // the loss of each row alone, then the gradient of their mean
        for (std::size_t r = 0; r < rows; ++r) {
          loss.forward(on_device.narrow(r * classes, classes).view({1, classes}),
                       {labels.data() + r, 1}, stream);
          result.push_back(static_cast<float>(loss.value(stream)));
        }
        loss.forward(on_device, {labels.data(), rows}, stream);
        const Floats gradient = to_host(stream, loss.grad());
        result.insert(result.end(), gradient.begin(), gradient.end());
        return result;
      },
      1e-6);
  const CrossEntropy want = cross_entropy(in_double(logits), targets);
  const auto split = got.begin() + rows;
  const Floats gradient(split, got.end());
  CHECK(largest_error(Floats(got.begin(), split), want.losses) < 1e-6);
  CHECK(largest_error(gradient, want.gradient) < 2e-7);
}

TEST_CASE("a prediction is right if the first of the largest logits is the target's", "[gpu]") {
  const Floats logits{1,  3,  3,  2,   //
                      1,  3,  3,  2,   //
                      5,  5,  5,  5,   //
                      5,  5,  5,  5,   //
                      -9, -8, -7, -6,  //
                      -9, -8, -7, -6,  //
                      0,  -1, 0,  -1};
  const Targets targets{1, 2, 0, 3, 3, 0, 2};
  const Floats want{1, 0, 1, 0, 1, 0, 0};
  const Floats got = everywhere([&](const Stream& stream) {
    const Tensor hits({targets.size()}, stream.device());
    count_hits(stream, targets.size(), 4, upload(stream, logits).data(),
               upload_targets(stream, targets).data(), hits.data());
    return to_host(stream, hits);
  });
  CHECK(got == want);
}

TEST_CASE("an Mlp has PyTorch's names and shapes") {
  const std::vector<std::size_t> widths{5, 7, 6};
  const Stream stream(Device{});
  Generator generator(20);
  const Mlp model(widths, generator, stream);
  std::vector<std::pair<std::string, Shape>> found;
  for (const Parameter& parameter : model.parameters()) {
    found.emplace_back(parameter.name, parameter.value.shape());
    CHECK(parameter.grad.shape() == parameter.value.shape());
  }
  CHECK(found ==
        std::vector<std::pair<std::string, Shape>>{
            {"0.weight", {7, 5}}, {"0.bias", {7}}, {"2.weight", {6, 7}}, {"2.bias", {6}}});
  CHECK_THROWS_AS(Mlp({5}, generator, stream), Error);
  CHECK_THROWS_AS(Mlp({}, generator, stream), Error);
}
