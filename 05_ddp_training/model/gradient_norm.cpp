// Like kernels.cpp, this file has one struct per operation. It is also compiled the same way.
#include "05_ddp_training/model/gradient_norm.hpp"

#include "05_ddp_training/model/parallel_for.hpp"
#include "common/tensor.hpp"

#include <utility>

namespace dist {
namespace {

constexpr std::size_t kBlock = 1024;

std::size_t blocks_of(std::size_t count) {
  return (count + kBlock - 1) / kBlock;
}

// One block per index. The eight partial sums let the compiler use vectors, and fix the order.
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

std::size_t all_blocks(std::span<const GradientNorm::Range> ranges) {
  std::size_t all = 0;
  for (const auto& range : ranges) all += blocks_of(range.count);
  return all;
}

}  // namespace

GradientNorm::GradientNorm(double limit, std::vector<Range> ranges, int ranks,
                           bool is_exchanged, const Stream& stream)
    : limit_(limit),
      ranges_(std::move(ranges)),
      factor_(is_exchanged ? 1.0 : 1.0 / ranks),
      blocks_(all_blocks(ranges_), stream.device()),
      begin_(static_cast<std::size_t>(ranks) + 1, stream.device()),
      squares_(static_cast<std::size_t>(ranks), stream.device()) {
  std::vector<std::size_t> begin(begin_.size(), 0);
  for (const Range& range : ranges_) {
    const auto rank = static_cast<std::size_t>(range.rank);
    for (std::size_t later = rank + 1; later < begin.size(); ++later) {
      begin[later] += blocks_of(range.count);
    }
  }
  copy_bytes(stream, begin_.data(), begin.data(), begin.size() * sizeof(std::size_t));
  stream.synchronize();  // the copy reads this function's memory
}

void GradientNorm::queue_squares(std::span<const UpdateTensors> tensors,
                                 const Stream& stream) const {
  double* sums = blocks_.data();
  for (const Range& range : ranges_) {
    const float* const gradient = tensors[range.tensor].gradient + range.begin;
    const std::size_t blocks = blocks_of(range.count);
    parallel_for(stream, blocks, SquaresOfBlock{range.count, gradient, sums});
    sums += blocks;
  }
  parallel_for(stream, squares_.size(),
               SumOfRank{blocks_.data(), begin_.data(), factor_, squares_.data()});
}

}  // namespace dist
