// Like kernels.cpp, this file has one struct per operation. It is also compiled the same way.
#include "05_ddp_training/optimizer/gradient_norm.hpp"

#include "05_ddp_training/model/parallel_for.hpp"
#include "common/tensor.hpp"

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

struct SumOfRank {
  const double* blocks;
  const std::size_t* begin;
  double factor;
  double* squares;
  DIST_HOST_DEVICE void operator()(std::size_t rank) const {
    double sum = 0;
    for (std::size_t block = begin[rank]; block < begin[rank + 1]; ++block)
      sum += blocks[block];
    squares[rank] = sum * factor;
  }
};

std::size_t parts_of(std::size_t count, std::size_t size) {
  return (count + size - 1) / size;
}

// On a GPU, a thread that adds up a whole block would keep the others waiting, and a kernel per
// range would cost more than its additions. So one kernel handles up to 64 ranges, with few
// numbers per thread; neighbouring threads read neighbouring numbers, which is fast. A second
// kernel adds up most of the sums in the same way.
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

struct SumsOfBlocks {
  const double* threads;
  const std::size_t* first_thread;  // of each rank; then the end
  const std::size_t* first_block;   // likewise
  double* blocks;
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    std::size_t rank = 0;
    while (i >= first_block[rank + 1]) ++rank;
    const std::size_t stride = first_block[rank + 1] - first_block[rank];
    double sum = 0;
    std::size_t k = first_thread[rank] + (i - first_block[rank]);
    for (; k < first_thread[rank + 1]; k += stride) sum += threads[k];
    blocks[i] = sum;
  }
};

// Where each rank's pieces begin among all ranks', and where the last one's end.
using Begins = std::vector<std::size_t>;

Begins begins_of(const Begins& counts) {
  Begins begins{0};
  for (const std::size_t count : counts) begins.push_back(begins.back() + count);
  return begins;
}

Buffer<std::size_t> uploaded(const Begins& begins, const Stream& stream) {
  Buffer<std::size_t> copy(begins.size(), stream.device());
  copy_bytes(stream, copy.data(), begins.data(), copy.size_bytes());
  stream.synchronize();  // the copy reads the caller's memory
  return copy;
}

}  // namespace

GradientNorm::GradientNorm(double limit, std::vector<Range> ranges, int ranks,
                           bool is_exchanged, const Stream& stream)
    : limit_(limit),
      ranges_(std::move(ranges)),
      factor_(is_exchanged ? 1.0 : 1.0 / ranks),
      squares_(static_cast<std::size_t>(ranks), stream.device()) {
  const bool on_cpu = stream.device().is_cpu();
  Begins pieces(squares_.size(), 0);
  for (const Range& range : ranges_) {
    pieces[static_cast<std::size_t>(range.rank)] +=
        parts_of(range.count, on_cpu ? kBlock : kPerThread);
  }
  if (!on_cpu) {
    const Begins begins = begins_of(pieces);
    first_thread_ = uploaded(begins, stream);
    threads_ = Buffer<double>(begins.back(), stream.device());
    for (std::size_t& count : pieces) count = parts_of(count, kPerBlock);
  }
  const Begins begins = begins_of(pieces);
  first_block_ = uploaded(begins, stream);
  blocks_ = Buffer<double>(begins.back(), stream.device());
}

void GradientNorm::queue_squares(std::span<const UpdateTensors> tensors,
                                 const Stream& stream) const {
  const auto gradient_of = [&](const Range& range) {
    return tensors[range.tensor].gradient + range.begin;
  };
  if (stream.device().is_cpu()) {
    double* sums = blocks_.data();
    for (const Range& range : ranges_) {
      const std::size_t blocks = parts_of(range.count, kBlock);
      parallel_for(stream, blocks, SquaresOfBlock{range.count, gradient_of(range), sums});
      sums += blocks;
    }
  } else {
    double* sums = threads_.data();
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
    parallel_for(stream, blocks_.size(),
                 SumsOfBlocks{threads_.data(), first_thread_.data(), first_block_.data(),
                              blocks_.data()});
  }
  parallel_for(stream, squares_.size(),
               SumOfRank{blocks_.data(), first_block_.data(), factor_, squares_.data()});
}

}  // namespace dist
