#include "03_all_reduce/choice/host_costs.hpp"

#include "01_send_recv/measure.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "common/buffer.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace dist {
namespace {

struct Point {
  double bytes;
  double seconds;
};

// Returns a function that interpolates seconds between the measured points. Outside their
// range, it uses the rate of the nearest point.
std::function<double(double)> through(std::vector<Point> points) {
  return [points = std::move(points)](double bytes) {
    if (bytes <= points.front().bytes) {
      return points.front().seconds * bytes / points.front().bytes;
    }
    for (std::size_t i = 1; i < points.size(); ++i) {
      const Point& a = points[i - 1];
      const Point& b = points[i];
      if (bytes > b.bytes) continue;
      return a.seconds + (b.seconds - a.seconds) * (bytes - a.bytes) / (b.bytes - a.bytes);
    }
    return points.back().seconds * bytes / points.back().bytes;
  };
}

// The time in seconds of the fastest of `runs` runs, where a run takes as long as its slowest
// rank. Other work on the machine can only add time, so the fastest run was the least
// disturbed. All ranks get the same answer.
template <class Operation>
double least_of_slowest(const Communicator& comm, int runs, Operation operation) {
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < runs; ++run) {
    least = std::min(least, median_of_slowest(
                                comm, 1, [] {}, operation));
  }
  return least;
}

// Measures operation(count) on all ranks simultaneously, for 4, 16, ... KiB up to most_bytes.
template <class Operation>
std::function<double(double)> curve(const Communicator& comm, std::size_t most_bytes,
                                    Operation operation) {
  constexpr double kSampleSeconds = 50e-6;
  std::vector<Point> points;
  for (std::size_t bytes = 4096; bytes <= std::max<std::size_t>(most_bytes, 4096); bytes *= 4) {
    // For small sizes, a sample repeats the operation, because reading the clock takes 30 ns.
    const double guess = static_cast<double>(bytes) / 10e9;
    const int times = std::max(1, static_cast<int>(kSampleSeconds / guess));
    const double seconds = least_of_slowest(comm, bytes < (4U << 20) ? 7 : 3, [&] {
      for (int i = 0; i < times; ++i) operation(bytes / sizeof(float));
    });
    points.push_back({static_cast<double>(bytes), seconds / times});
  }
  return through(std::move(points));
}

}  // namespace

void measure_host_costs(const Communicator& comm, SharedMemoryAllReduce* shared,
                        std::size_t most_bytes, StepCosts& costs) {
  const std::size_t count = std::max<std::size_t>(most_bytes, 4096) / sizeof(float);
  const Buffer<float> a(count, Device{});
  const Buffer<float> b(count, Device{});
  fill_tracer_numbers({a.data(), count}, 1);
  fill_tracer_numbers({b.data(), count}, 2);
  // The operation is the maximum, because repeated sums would grow to infinity.
  costs.reduce = curve(comm, most_bytes, [&](std::size_t n) {
    accumulate<float>(ReduceOp::max, {a.data(), n}, {b.data(), n});
  });
  if (shared == nullptr) return;
  // Runs the loop of reduce_in_place on two tensors of this rank. Like reduce_in_place, it
  // reads n bytes and writes n bytes, in the faster of two ways (StoreChoice).
  const auto moved = [&](bool past_caches) {
    return curve(comm, most_bytes, [&, past_caches](std::size_t n) {
      const std::array<const std::byte*, 2> sources{
          reinterpret_cast<const std::byte*>(a.data()),
          reinterpret_cast<const std::byte*>(b.data())};
      const std::array<std::byte*, 2> targets{reinterpret_cast<std::byte*>(a.data()),
                                              reinterpret_cast<std::byte*>(b.data())};
      shared_memory::reduce<float>(ReduceOp::max, sources, targets, n / 2, past_caches);
    });
  };
  costs.move = [ordinary = moved(false), streaming = moved(true)](double bytes) {
    return std::min(ordinary(bytes), streaming(bytes));
  };
  constexpr int kTimes = 20;
  costs.barrier = least_of_slowest(comm, 7,
                                   [&] {
                                     for (int i = 0; i < kTimes; ++i) shared->barrier();
                                   }) /
                  kTimes;
  // A block's numbers move between cores, which a loop on one core cannot imitate, so this code
  // measures the real all-reduce.
  constexpr std::size_t kBlock = shared_memory::kBlockBytes / sizeof(float);
  Buffer<float> block(kBlock, Device{});
  fill_tracer_numbers({block.data(), kBlock}, comm.rank());
  costs.segment_block =
      least_of_slowest(comm, 7,
                       [&] {
                         for (int i = 0; i < kTimes; ++i) {
                           shared->all_reduce<float>({block.data(), kBlock}, ReduceOp::max);
                         }
                       }) /
      kTimes;
}

}  // namespace dist
