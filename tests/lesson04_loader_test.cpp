// Lesson 4: samples become batches.
//
// The batches are compared with the samples themselves, also on GPUs (real or emulated). On a
// GPU the steps are queued without waiting, so a buffer that is reused too early gives wrong
// data.

#include "04_distributed_sampler/data_loader.hpp"
#include "tests/support/device_numbers.hpp"
#include "tests/support/recorder.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

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

// The batches of `wanted` from batch `first` on, computed from the samples themselves.
Delivered expected(const Dataset& data, const Indices& wanted, std::size_t batch_size,
                   bool drop_last, std::size_t first) {
  Delivered all;
  const std::size_t kept = drop_last ? wanted.size() / batch_size * batch_size : wanted.size();
  std::vector<float> row(data.features());
  for (std::size_t at = first * batch_size; at < kept; ++at) {
    if (at % batch_size == 0) all.rows.push_back(std::min(batch_size, kept - at));
    all.targets.push_back(data.get(wanted[at], row));
    all.inputs.insert(all.inputs.end(), row.begin(), row.end());
  }
  return all;
}

}  // namespace

TEST_CASE("a loader collects the requested rows in order, starting at any batch") {
  const TensorDataset data = numbered(23, 3);
  for (const Device device : devices()) {
    const Stream stream(device);
    for (const std::size_t batch_size : {1U, 4U, 8U, 100U}) {
      for (const bool drop_last : {false, true}) {
        DataLoader plain(data, batch_size, drop_last, stream);
        for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 23U}) {
          const std::size_t kept = drop_last ? count / batch_size * batch_size : count;
          const std::size_t batches = (kept + batch_size - 1) / batch_size;
          CHECK(plain.batches(count) == batches);
          for (std::size_t first = 0; first <= batches; ++first) {
            CAPTURE(to_string(device), count, batch_size, drop_last, first);
            const Indices wanted = some(count);
            const Delivered want = expected(data, wanted, batch_size, drop_last, first);
            CHECK(deliver(plain.over(wanted, first), count, 3, stream) == want);
          }
          CHECK_THROWS_AS(plain.over(some(count), batches + 1), Error);
        }
      }
    }
  }
}

TEST_CASE("an epoch can be iterated twice") {
  const TensorDataset data = numbered(23, 3);
  const Stream stream(Device{});
  DataLoader plain(data, 4, false, stream);
  DataLoader::Range range = plain.over(some(23));
  const Delivered want = expected(data, some(23), 4, false, 0);
  CHECK(deliver(range, 23, 3, stream) == want);
  CHECK(deliver(range, 23, 3, stream) == want);
}

TEST_CASE("skipped samples are not read, and no sample is read twice") {
  const Stream stream(Device{});
  for (const std::size_t first : {0U, 2U, 5U, 6U}) {
    CAPTURE(first);
    const Indices wanted = some(23);
    const auto begin = wanted.begin() + static_cast<std::ptrdiff_t>(
                                            std::min<std::size_t>(first * 4, wanted.size()));
    const Recorder data(23);
    DataLoader plain(data, 4, false, stream);
    deliver(plain.over(wanted, first), 23, 3, stream);
    CHECK(data.reads() == Indices(begin, wanted.end()));
  }
}

TEST_CASE("an exception is thrown at the batch that it concerns") {
  for (const Device device : devices()) {
    const Stream stream(device);
    const Recorder data(23, /*broken=*/some(23)[9]);  // in batch 2
    DataLoader plain(data, 4, false, stream);
    std::size_t steps = 0;
    CHECK(error_of([&] {
            for (const Batch& batch : plain.over(some(23))) steps += batch.rows();
          }) == "sample " + std::to_string(some(23)[9]) + " is broken");
    CHECK(steps == 8);
  }
}

TEST_CASE("a batch size of 0 is refused") {
  const TensorDataset data = numbered(5, 3);
  const Stream stream(Device{});
  CHECK_THROWS_AS(DataLoader(data, 0, false, stream), Error);
}
