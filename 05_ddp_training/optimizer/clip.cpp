#include "05_ddp_training/optimizer/clip.hpp"

#include "05_ddp_training/model/parallel_for.hpp"
#include "common/tensor.hpp"

#include <algorithm>
#include <utility>

namespace dist {
namespace {

constexpr std::size_t kBlock = 1024;

// One block per index. The eight partial sums let the compiler use vectors, and fix the order.
// Without the pragma, GCC 12 unrolls the loop over the lanes and then finds no vectors.
struct SquaresOfBlock {
  std::size_t count;
  const float* gradient;
  double* sums;
  DIST_HOST_DEVICE void operator()(std::size_t block) const {
    constexpr std::size_t kLanes = 8;
    double lanes[kLanes] = {};
    const std::size_t begin = block * kBlock;
    const std::size_t end = count - begin < kBlock ? count : begin + kBlock;
    std::size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
#pragma omp simd
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const double g = gradient[i + lane];
        lanes[lane] += g * g;
      }
    }
    for (; i < end; ++i) {
      const double g = gradient[i];
      lanes[i % kLanes] += g * g;
    }
    double sum = 0;
    for (const double lane : lanes) sum += lane;
    sums[block] = sum;
  }
};

std::size_t parts_of(std::size_t count, std::size_t size) {
  return (count + size - 1) / size;
}

// On a GPU, a thread that adds up a whole block would keep the others waiting, and a kernel per
// range would cost more than its additions. So one kernel handles up to 64 ranges, with few
// numbers per thread; neighbouring threads read neighbouring numbers, which is fast. A second
// kernel adds up most of the sums in the same way, 128 per thread.
constexpr std::size_t kPerThread = 64;
constexpr std::size_t kPerBlock = 128;

struct SquaresOfThreads {
  static constexpr std::size_t kMost = 64;
  struct Part {
    const float* gradient = nullptr;
    std::size_t count = 0;
    std::size_t threads = 0;
  };
  Part parts[kMost] = {};
  double* sums;
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    std::size_t p = 0;
    std::size_t thread = i;
    while (thread >= parts[p].threads) thread -= parts[p++].threads;
    double sum = 0;
    for (std::size_t k = thread; k < parts[p].count; k += parts[p].threads) {
      const double g = parts[p].gradient[k];
      sum += g * g;
    }
    sums[i] = sum;
  }
};

// Adds up the parts of one rank, which begin at first_part[rank], in several sums, which begin
// at first_sum[rank].
struct SumOfParts {
  const double* parts;
  const std::size_t* first_part;
  const std::size_t* first_sum;
  double factor;
  double* sums;
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    std::size_t rank = 0;
    while (i >= first_sum[rank + 1]) ++rank;
    const std::size_t stride = first_sum[rank + 1] - first_sum[rank];
    double sum = 0;
    std::size_t k = first_part[rank] + (i - first_sum[rank]);
    for (; k < first_part[rank + 1]; k += stride) sum += parts[k];
    sums[i] = sum * factor;
  }
};

}  // namespace

GradientNorm::Sums::Sums(std::span<const std::size_t> counts, const Stream& stream)
    : first(counts.size() + 1, stream.device()) {
  std::vector<std::size_t> begins{0};
  for (const std::size_t count : counts) begins.push_back(begins.back() + count);
  sums = Buffer<double>(begins.back(), stream.device());
  copy_bytes(stream, first.data(), begins.data(), first.size_bytes());
  stream.synchronize();  // the copy reads this function's memory
}

GradientNorm::GradientNorm(std::vector<Range> ranges, int ranks, bool is_exchanged,
                           const Stream& stream)
    : ranges_(std::move(ranges)), factor_(is_exchanged ? 1.0 : 1.0 / ranks) {
  const bool on_cpu = stream.device().is_cpu();
  std::vector<std::size_t> counts(static_cast<std::size_t>(ranks), 0);
  for (const Range& range : ranges_) {
    counts[static_cast<std::size_t>(range.rank)] +=
        parts_of(range.count, on_cpu ? kBlock : kPerThread);
  }
  levels_.emplace_back(counts, stream);
  if (!on_cpu) {
    for (std::size_t& count : counts) count = parts_of(count, kPerBlock);
    levels_.emplace_back(counts, stream);
  }
  std::ranges::fill(counts, 1);
  levels_.emplace_back(counts, stream);
}

void GradientNorm::queue_squares(std::span<const UpdateTensors> tensors,
                                 const Stream& stream) const {
  const auto gradient_of = [&](const Range& range) {
    return tensors[range.tensor].gradient + range.begin;
  };
  double* sums = levels_.front().sums.data();
  if (stream.device().is_cpu()) {
    for (const Range& range : ranges_) {
      const std::size_t blocks = parts_of(range.count, kBlock);
      parallel_for(stream, blocks, SquaresOfBlock{range.count, gradient_of(range), sums});
      sums += blocks;
    }
  } else {
    for (std::size_t r = 0; r < ranges_.size();) {
      SquaresOfThreads body{.sums = sums};
      std::size_t all = 0;
      for (std::size_t p = 0; p < body.kMost && r < ranges_.size(); ++p, ++r) {
        const std::size_t count = ranges_[r].count;
        body.parts[p] = {gradient_of(ranges_[r]), count, parts_of(count, kPerThread)};
        all += body.parts[p].threads;
      }
      parallel_for(stream, all, body);
      sums += all;
    }
  }
  for (std::size_t l = 1; l < levels_.size(); ++l) {
    const Sums& parts = levels_[l - 1];
    const Sums& level = levels_[l];
    parallel_for(stream, level.sums.size(),
                 SumOfParts{parts.sums.data(), parts.first.data(), level.first.data(),
                            l + 1 == levels_.size() ? factor_ : 1.0, level.sums.data()});
  }
}

}  // namespace dist
