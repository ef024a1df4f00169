// Lesson 4: samples become batches, with and without a thread that reads ahead.
//
// The batches of both loaders are compared with the samples themselves, also on GPUs (real or
// emulated). On a GPU the steps are queued without waiting, so a buffer that is reused too
// early gives wrong data.

#include "04_distributed_sampler/advanced/prefetch_loader.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "tests/support/device_numbers.hpp"
#include "tests/support/recorder.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
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

TEST_CASE("both loaders collect the requested rows in order, starting at any batch") {
  const TensorDataset data = numbered(23, 3);
  for (const Device device : devices()) {
    const Stream stream(device);
    for (const std::size_t batch_size : {1U, 4U, 8U, 100U}) {
      for (const bool drop_last : {false, true}) {
        DataLoader plain(data, batch_size, drop_last, stream);
        PrefetchLoader none(data, batch_size, drop_last, stream, 0);
        PrefetchLoader one(data, batch_size, drop_last, stream, 1);
        PrefetchLoader two(data, batch_size, drop_last, stream);
        PrefetchLoader nine(data, batch_size, drop_last, stream, 9);
        for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 23U}) {
          const std::size_t kept = drop_last ? count / batch_size * batch_size : count;
          const std::size_t batches = (kept + batch_size - 1) / batch_size;
          CHECK(plain.batches(count) == batches);
          CHECK(two.batches(count) == batches);
          for (std::size_t first = 0; first <= batches; ++first) {
            CAPTURE(to_string(device), count, batch_size, drop_last, first);
            const Indices wanted = some(count);
            const Delivered want = expected(data, wanted, batch_size, drop_last, first);
            CHECK(deliver(plain.over(wanted, first), count, 3, stream) == want);
            for (PrefetchLoader* ahead : {&none, &one, &two, &nine}) {
              CHECK(deliver(ahead->over(wanted, first), count, 3, stream) == want);
            }
          }
          CHECK_THROWS_AS(plain.over(some(count), batches + 1), Error);
          CHECK_THROWS_AS(two.over(some(count), batches + 1), Error);
        }
      }
    }
  }
}

TEST_CASE("an epoch can be iterated twice, and a batch can be read twice") {
  const TensorDataset data = numbered(23, 3);
  for (const Device device : devices()) {
    const Stream stream(device);
    PrefetchLoader ahead(data, 4, false, stream);
    const Delivered want = expected(data, some(23), 4, false, 1);
    PrefetchLoader::Epoch epoch = ahead.over(some(23), 1);
    CHECK(deliver(epoch, 23, 3, stream) == want);
    for (const Batch& batch : epoch) {
      CHECK(batch.rows() == 4);
      break;  // leave early, then start again from the beginning
    }
    CHECK(deliver(epoch, 23, 3, stream) == want);

    auto iterator = epoch.begin();
    const Batch& batch = *iterator;
    CHECK(&*iterator == &batch);
    CHECK(batch.rows() == 4);
  }
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
    const Recorder for_plain(23), for_ahead(23);
    DataLoader plain(for_plain, 4, false, stream);
    PrefetchLoader ahead(for_ahead, 4, false, stream);
    deliver(plain.over(wanted, first), 23, 3, stream);
    deliver(ahead.over(wanted, first), 23, 3, stream);
    CHECK(for_plain.reads() == Indices(begin, wanted.end()));
    // Two threads may collect two batches at once, so the order of the reads varies.
    Indices once = for_ahead.reads();
    std::ranges::sort(once);
    Indices rest(begin, wanted.end());
    std::ranges::sort(rest);
    CHECK(once == rest);
  }
}

TEST_CASE("a second thread collects batches, exactly as many ahead as requested") {
  const Stream stream(Device{});
  for (const std::size_t prefetch : {1U, 2U, 3U}) {
    CAPTURE(prefetch);
    const Recorder data(23);
    PrefetchLoader ahead(data, 2, false, stream, prefetch);
    {
      PrefetchLoader::Epoch epoch = ahead.over(some(23));
      auto batch = epoch.begin();
      for (std::size_t step = 0; step < 4; ++step, ++batch) {
        CHECK((*batch).rows() == 2);
        // The step only waits. Without reading ahead, it would wait forever.
        data.wait_for(2 * (step + 1 + prefetch));
      }
      // No event shows that a thread has written nothing, so give a faulty thread time to write
      // into the slot that is in use.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    CHECK(data.reads().size() == 2 * (4 + prefetch));
    std::set<std::thread::id> others = data.threads();
    others.erase(std::this_thread::get_id());  // this thread may have collected the first batch
    CHECK(others.size() == 1);
  }
  const Recorder data(23);
  PrefetchLoader none(data, 2, false, stream, 0);
  deliver(none.over(some(23)), 23, 3, stream);
  CHECK(data.threads() == std::set{std::this_thread::get_id()});
}

TEST_CASE("an exception in the reading thread is rethrown at the batch that it concerns") {
  for (const Device device : devices()) {
    const Stream stream(device);
    const Recorder data(23, /*broken=*/some(23)[9]);  // in batch 2
    DataLoader plain(data, 4, false, stream);
    PrefetchLoader ahead(data, 4, false, stream);
    const std::string text = "sample " + std::to_string(some(23)[9]) + " is broken";
    std::size_t steps = 0;
    CHECK(error_of([&] {
            for (const Batch& batch : plain.over(some(23))) steps += batch.rows();
          }) == text);
    CHECK(steps == 8);
    for (int round = 0; round < 2; ++round) {  // an error does not spoil the loader
      steps = 0;
      CHECK(error_of([&] {
              for (const Batch& batch : ahead.over(some(23))) steps += batch.rows();
            }) == text);
      CHECK(steps == 8);
    }
    CHECK(deliver(ahead.over({0, 2}), 2, 3, stream) ==
          deliver(plain.over({0, 2}), 2, 3, stream));
    // Here it is certain that the reading thread throws while this thread holds batch 0.
    const Recorder another(23, some(23)[9]);
    PrefetchLoader certain(another, 4, false, stream);
    steps = 0;
    CHECK(error_of([&] {
            for (const Batch& batch : certain.over(some(23))) {
              if (steps == 0) another.wait_for_throw();
              steps += batch.rows();
            }
          }) == text);
    CHECK(steps == 8);
    for (const std::size_t prefetch : {0U, 2U}) {  // asking again throws again
      PrefetchLoader loader(data, 4, false, stream, prefetch);
      PrefetchLoader::Epoch epoch = loader.over(some(23), 2);
      auto broken = epoch.begin();
      CHECK(error_of([&] { *broken; }) == text);
      CHECK(error_of([&] { *broken; }) == text);
    }
    // An error in a batch that is never taken has no effect.
    for (const Batch& batch : ahead.over(some(23))) {
      CHECK(batch.rows() == 4);
      break;
    }
  }
}

TEST_CASE("an epoch can be abandoned at any batch, and the next epoch is correct") {
  const TensorDataset data = numbered(23, 3);
  for (const Device device : devices()) {
    const Stream stream(device);
    PrefetchLoader ahead(data, 2, false, stream);
    for (std::size_t leave_at = 0; leave_at <= 12; ++leave_at) {
      for (int again = 0; again < 5; ++again) {
        std::size_t step = 0;
        PrefetchLoader::Epoch epoch = ahead.over(some(23));
        if (leave_at == 12) epoch.begin();  // the thread starts, and no batch is ever taken
        if (leave_at == 12) continue;
        for (const Batch& batch : epoch) {
          if (batch.rows() == 0 || step++ == leave_at) break;
        }
      }
      const Delivered want = expected(data, some(23), 2, false, 0);
      CHECK(deliver(ahead.over(some(23)), 23, 3, stream) == want);
    }
  }
}

TEST_CASE("a loader has at most one epoch at a time") {
  const TensorDataset data = numbered(23, 3);
  const Stream stream(Device{});
  PrefetchLoader ahead(data, 4, false, stream);
  {
    const PrefetchLoader::Epoch epoch = ahead.over(some(23));
    CHECK_THROWS_AS(ahead.over(some(23)), Error);
  }
  CHECK_NOTHROW(ahead.over(some(23)));
  CHECK_THROWS_AS(ahead.over(some(23), 7), Error);  // six batches
  CHECK_NOTHROW(ahead.over(some(23)));
}

TEST_CASE("a batch size of 0 is refused") {
  const TensorDataset data = numbered(5, 3);
  const Stream stream(Device{});
  CHECK_THROWS_AS(DataLoader(data, 0, false, stream), Error);
  CHECK_THROWS_AS(PrefetchLoader(data, 0, false, stream), Error);
}

TEST_CASE("reading ahead is omitted if it cannot pay off") {
  const TensorDataset in_memory = numbered(5, 3);
  const Recorder file(5);
  const Subset part(file, 1, 2);
  const Device cpu{}, gpu{DeviceType::cuda, 0};
  CHECK(choose_prefetch(in_memory, cpu).prefetch == 0);
  CHECK(choose_prefetch(in_memory, gpu).prefetch == 2);
  CHECK(choose_prefetch(file, cpu).prefetch == 2);
  CHECK(choose_prefetch(part, cpu).prefetch == 2);
}
