#include "05_ddp_training/optimizer/clip.hpp"

#include "05_ddp_training/model/parallel_for_parts.hpp"
#include "common/tensor.hpp"

#include <algorithm>
#include <utility>

namespace dist {
namespace {

// A range of a gradient, and where the sums of its squares begin.
struct Squares {
  std::size_t count;
  const float* gradient;
  double* sums;
};

// On a CPU: one block of this many numbers. The eight partial sums let the compiler use
// vectors, and fix the order. Without the pragma, GCC 12 unrolls the inner loop and finds none.
constexpr std::size_t kBlock = 1024;
struct SquaresOfBlock {
  DIST_HOST_DEVICE void operator()(const Squares& s, std::size_t block) const {
    constexpr std::size_t kLanes = 8;
    double lanes[kLanes] = {};
    const std::size_t begin = block * kBlock;
    const std::size_t end = s.count - begin < kBlock ? s.count : begin + kBlock;
    std::size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
#pragma omp simd
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const double g = s.gradient[i + lane];
        lanes[lane] += g * g;
      }
    }
    for (; i < end; ++i) {
      const double g = s.gradient[i];
      lanes[i % kLanes] += g * g;
    }
    double sum = 0;
    for (const double lane : lanes) sum += lane;
    s.sums[block] = sum;
  }
};

// On a GPU, a thread that adds up a whole block would keep the others waiting. So a thread adds
// up this many numbers, and neighbouring threads read neighbouring ones, which is fast. A
// second kernel adds up most of the sums in the same way, 128 per thread.
constexpr std::size_t kPerThread = 64;
constexpr std::size_t kPerBlock = 128;
struct SquaresOfThread {
  DIST_HOST_DEVICE void operator()(const Squares& s, std::size_t thread) const {
    double sum = 0;
    for (std::size_t i = thread; i < s.count; i += blocks_of(s.count, kPerThread)) {
      const double g = s.gradient[i];
      sum += g * g;
    }
    s.sums[thread] = sum;
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
        blocks_of(range.count, on_cpu ? kBlock : kPerThread);
  }
  levels_.emplace_back(counts, stream);
  if (!on_cpu) {
    for (std::size_t& count : counts) count = blocks_of(count, kPerBlock);
    levels_.emplace_back(counts, stream);
  }
  std::ranges::fill(counts, 1);
  levels_.emplace_back(counts, stream);
}

void GradientNorm::queue_squares(std::span<const UpdateTensors> tensors,
                                 const Stream& stream) const {
  const bool on_cpu = stream.device().is_cpu();
  std::vector<Squares> squares;
  double* sums = levels_.front().sums.data();
  for (const Range& range : ranges_) {
    squares.push_back({range.count, tensors[range.tensor].gradient + range.begin, sums});
    sums += blocks_of(range.count, on_cpu ? kBlock : kPerThread);
  }
  if (on_cpu) {
    parallel_for_parts<kBlock>(stream, std::span<const Squares>(squares), SquaresOfBlock{});
  } else {
    parallel_for_parts<kPerThread>(stream, std::span<const Squares>(squares),
                                   SquaresOfThread{});
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
