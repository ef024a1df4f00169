// Lesson 4: samples become batches.
//
// The batches are compared with the samples themselves, also on GPUs (real or emulated). On a
// GPU the steps are queued without waiting, so a buffer that is reused too early gives wrong
// data.

#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "tests/support/device_numbers.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

// Whether over(argument) may be called on a value of this type.
template <class Loader, class Argument>
constexpr bool goes_over = requires(Argument argument) {
  std::declval<Loader>().over(argument);
};
static_assert(goes_over<DataLoader&, Indices> &&
              goes_over<DataLoader&, std::vector<BatchSamples>>);
static_assert(!goes_over<DataLoader, Indices> &&
                  !goes_over<DataLoader, std::vector<BatchSamples>>,
              "a loop over a temporary loader reads freed memory");

// 23 samples of 3 features.
TensorDataset random_samples() {
  Generator generator(1);
  return synthetic_dataset(23, 3, 7, generator);
}

// The indices of `count` out of 23 samples, in a mixed order.
Indices some(std::size_t count) {
  Indices indices(count);
  for (std::size_t i = 0; i < count; ++i) indices[i] = (i * 5 + 2) % 23;
  return indices;
}

// Everything that one pass over the batches delivered.
struct Delivered {
  std::vector<std::size_t> rows;  // of each batch
  std::vector<float> inputs;
  std::vector<std::int32_t> targets;
  bool operator==(const Delivered&) const = default;
};

// Each step queues a copy of its batch, where a real step would queue kernels, and continues
// without waiting.
template <class Range>
Delivered deliver(Range&& range, std::size_t samples, std::size_t features,
                  const Stream& stream) {
  Delivered all;
  const Tensor inputs({samples, features}, stream.device());
  const Buffer<std::int32_t> targets(samples, stream.device());
  std::size_t at = 0;
  for (const Batch& batch : range) {
    CHECK(batch.inputs.shape() == Shape{batch.rows(), features});
    CHECK(at + batch.rows() <= samples);
    if (at + batch.rows() > samples) break;
    copy_bytes(stream, inputs.data() + at * features, batch.inputs.data(),
               batch.inputs.size_bytes());
    copy_bytes(stream, targets.data() + at, batch.targets.data(), batch.targets.size_bytes());
    at += batch.rows();
    all.rows.push_back(batch.rows());
  }
  all.inputs = to_host(stream, inputs.rows(at));
  all.targets.resize(at);
  copy_bytes(stream, all.targets.data(), targets.data(), at * sizeof(std::int32_t));
  stream.synchronize();
  return all;
}

// The batches of `wanted`, computed from the samples themselves.
Delivered expected(const Dataset& data, const Indices& wanted, std::size_t batch_size,
                   bool drop_last) {
  Delivered all;
  const std::size_t kept = drop_last ? wanted.size() / batch_size * batch_size : wanted.size();
  std::vector<float> row(data.features());
  for (std::size_t at = 0; at < kept; ++at) {
    if (at % batch_size == 0) all.rows.push_back(std::min(batch_size, kept - at));
    all.targets.push_back(data.get(wanted[at], row));
    all.inputs.insert(all.inputs.end(), row.begin(), row.end());
  }
  return all;
}

}  // namespace

TEST_CASE("a loader collects the requested rows in order, each time it is asked",
          "[one process]") {
  const TensorDataset data = random_samples();
  for (const Device device : devices()) {
    const Stream stream(device);
    for (const std::size_t batch_size : {1U, 4U, 8U, 100U}) {
      for (const bool drop_last : {false, true}) {
        DataLoader plain(data, batch_size, drop_last, stream);
        for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 23U}) {
          CAPTURE(to_string(device), count, batch_size, drop_last);
          const Delivered want = expected(data, some(count), batch_size, drop_last);
          CHECK(plain.batches(count) == want.rows.size());
          DataLoader::Range range = plain.over(some(count));
          for (int pass = 0; pass < 2; ++pass) {
            CHECK(deliver(range, count, 3, stream) == want);
          }
        }
      }
    }
  }
}

TEST_CASE("an epoch is divided into batches and steps, of which the last may be smaller",
          "[one process]") {
  // The end of a batch is marked by |, that of a step by /, and that of the epoch by a point.
  const auto divided = [](const BatchPlan& plan, std::size_t samples) {
    std::string text;
    std::size_t steps = 0;
    for (const auto& [indices, place] : plan.divide(Indices(samples, 1))) {
      CHECK(place.accumulate == place.parts);
      text += std::string(indices.size(), static_cast<char>('a' + place.part));
      text += place.ends_epoch ? "." : place.ends_step() ? "/" : "|";
      steps += place.ends_step() ? 1 : 0;
    }
    CHECK(plan.steps(samples) == steps);
    return text;
  };
  CHECK(divided({2, false}, 5) == "aa/aa/a.");
  CHECK(divided({2, true}, 5) == "aa/aa.");
  CHECK(divided({2, false, 2}, 9) == "aa|bb/aa|bb/a.");
  CHECK(divided({2, true, 2}, 9) == "aa|bb/aa|bb.");
  CHECK(divided({2, false, 3}, 9) == "aa|bb|cc/aa|b.");
  CHECK(divided({4, true, 2}, 3).empty());
  CHECK(divided({4, false, 2}, 0).empty());
  CHECK(error_of([] { BatchPlan(2, false, 0); }) == "DataLoader: a step has no batches");
}

TEST_CASE("a loader makes the batches that it is given, up to its batch size",
          "[one process]") {
  const TensorDataset data = random_samples();
  const Stream stream(Device{});
  DataLoader plain(data, 4, false, stream);
  std::vector<BatchSamples> batches{{{7, 3}, {.part = 1, .parts = 3, .accumulate = 2}},
                                    {{22, 0, 7, 1}}};
  const Delivered delivered = deliver(plain.over(batches), 6, 3, stream);
  CHECK(delivered.rows == Indices{2, 4});
  CHECK(delivered.inputs == expected(data, {7, 3, 22, 0, 7, 1}, 6, false).inputs);
  auto range = plain.over(batches);
  const Batch::Place place = (*range.begin()).place;
  CHECK(place.part == 1);
  CHECK(place.parts == 3);
  CHECK(place.accumulate == 2);
  batches[1].indices.push_back(5);
  CHECK(error_of([&] { plain.over(batches); }) ==
        "DataLoader: a batch is larger than the batch size");
  CHECK_THROWS_AS(DataLoader(data, 0, false, stream), Error);
}

TEST_CASE("samples may have several targets, which travel with their samples",
          "[one process]") {
  constexpr std::size_t kSamples = 11, kTargets = 3;
  std::vector<float> inputs(kSamples * 2);
  std::iota(inputs.begin(), inputs.end(), 0.0F);
  std::vector<std::int32_t> targets(kSamples * kTargets);
  std::iota(targets.begin(), targets.end(), 100);
  const TensorDataset data(inputs, targets, /*features=*/2, /*classes=*/200, kTargets);
  REQUIRE(data.size() == kSamples);
  const Subset part(data, 2, 8);
  for (const Device device : devices()) {
    const Stream stream(device);
    DataLoader loader(part, 3, /*drop_last=*/false, stream);
    const std::vector<std::size_t> wanted{7, 0, 3, 2};
    std::size_t at = 0;
    for (const Batch& batch : loader.over(wanted)) {
      REQUIRE(batch.targets.size() == batch.rows() * kTargets);
      const Floats rows = to_host(stream, batch.inputs);
      std::vector<std::int32_t> found(batch.targets.size());
      copy_bytes(stream, found.data(), batch.targets.data(), batch.targets.size_bytes());
      stream.synchronize();
      for (std::size_t i = 0; i < batch.rows(); ++i, ++at) {
        const std::size_t sample = 2 + wanted[at];
        CHECK(rows[2 * i] == inputs[2 * sample]);
        for (std::size_t k = 0; k < kTargets; ++k) {
          CHECK(found[kTargets * i + k] == targets[kTargets * sample + k]);
        }
      }
    }
    CHECK(at == wanted.size());
  }
}
