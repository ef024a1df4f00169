#include "04_distributed_sampler/show/loader_timing.hpp"

#include "01_send_recv/measure.hpp"
#include "04_distributed_sampler/advanced/prefetch_loader.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "common/check.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>

namespace dist {
namespace {

using Clock = std::chrono::steady_clock;

double ns(Clock::duration time) {
  return std::chrono::duration<double, std::nano>(time).count();
}

// Imitates a step: reads the batch and computes for a time set by `passes`. Returns a number
// that depends on every input, so that the compiler cannot remove the loop.
float use(const Batch& batch, std::size_t passes) {
  std::array<float, 16> lanes{};  // independent sums, so that they can be vectorized
  const std::span<const float> inputs = batch.inputs.span();
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const auto weight = static_cast<float>(pass + 1);
    for (std::size_t i = 0; i + lanes.size() <= inputs.size(); i += lanes.size()) {
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        lanes[lane] += weight * inputs[i + lane];
      }
    }
  }
  return std::accumulate(lanes.begin(), lanes.end(), 0.0F);
}

template <class Range>
WalkTime walk(Range&& range, std::size_t passes) {
  volatile float sink = 0;  // volatile, so that the compiler keeps every sum
  Clock::duration waited{};
  std::size_t batches = 0;
  const auto begin = Clock::now();
  auto batch = range.begin();
  const auto end = range.end();
  while (batch != end) {
    const auto asked = Clock::now();
    const Batch& ready = *batch;
    waited += Clock::now() - asked;
    sink = sink + use(ready, passes);
    ++batch;
    ++batches;
  }
  const auto total = Clock::now() - begin;
  const auto count = static_cast<double>(batches);
  return {ns(waited) / count, ns(total) / count};
}

WalkTime median_of(const std::vector<WalkTime>& walks) {
  std::vector<double> waits, totals;
  for (const WalkTime& time : walks) {
    waits.push_back(time.wait_ns);
    totals.push_back(time.total_ns);
  }
  return {median(std::move(waits)), median(std::move(totals))};
}

bool same_bytes(const Batch& one, const Batch& other) {
  return one.rows() == other.rows() &&
         std::memcmp(one.inputs.data(), other.inputs.data(), one.inputs.size_bytes()) == 0 &&
         std::memcmp(one.targets.data(), other.targets.data(), one.targets.size_bytes()) == 0;
}

bool same_batches(DataLoader& plain, PrefetchLoader& ahead,
                  const std::vector<std::size_t>& indices) {
  auto range = plain.over(indices);
  auto expected = range.begin();
  std::size_t compared = 0;
  for (const Batch& batch : ahead.over(indices)) {
    if (!same_bytes(batch, *expected)) return false;
    ++expected;
    ++compared;
  }
  return compared == plain.batches(indices.size());
}

}  // namespace

LoaderTiming time_loaders(const Dataset& dataset, const std::vector<std::size_t>& indices,
                          std::size_t batch_size, std::size_t passes, int rounds,
                          const std::function<void()>& before_walk) {
  const Stream stream(Device{});
  DataLoader plain(dataset, batch_size, /*drop_last=*/false, stream);
  PrefetchLoader ahead(dataset, batch_size, /*drop_last=*/false, stream);
  if (indices.empty()) throw Error("time_loaders: there is no batch to time");

  LoaderTiming timing;
  timing.same_bits = same_batches(plain, ahead, indices);  // also warms up both loaders
  std::vector<WalkTime> plain_walks, ahead_walks;
  for (int round = 0; round < rounds; ++round) {
    // The loaders alternate, so that other load on the machine affects both of them.
    before_walk();
    plain_walks.push_back(walk(plain.over(indices), passes));
    before_walk();
    ahead_walks.push_back(walk(ahead.over(indices), passes));
  }
  timing.plain = median_of(plain_walks);
  timing.prefetch = median_of(ahead_walks);
  return timing;
}

}  // namespace dist
