// Each operation consists of a struct that defines what one index reads and writes, and a
// function that runs the struct over all indices.
//
// This file is compiled by nvcc in a CUDA build and by the C++ compiler otherwise. Neither
// compiler may contract a * b + c into one operation that rounds once; only std::fma does that.
#include "05_ddp_training/model/kernels.hpp"

#include "05_ddp_training/model/parallel_for.hpp"

#include <cmath>
#include <cstring>

namespace dist {
namespace {

struct AddBias {
  std::size_t columns;
  const float* bias;
  float* x;
  DIST_HOST_DEVICE void operator()(std::size_t r, std::size_t c) const {
    x[r * columns + c] += bias[c];
  }
};

struct AddBiasRelu {
  std::size_t columns;
  const float* bias;
  float* x;
  DIST_HOST_DEVICE void operator()(std::size_t r, std::size_t c) const {
    const float sum = x[r * columns + c] + bias[c];
    x[r * columns + c] = sum > 0.0F ? sum : 0.0F;
  }
};

struct ReluBackward {
  const float* output;
  float* gradient;
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    gradient[i] = output[i] > 0.0F ? gradient[i] : 0.0F;
  }
};

// One index owns kWidth neighbouring columns and adds each from the first row to the last, so
// the width does not affect the sums.
template <std::size_t kWidth>
struct ColumnSums {
  std::size_t rows, columns;
  const float* x;
  float* sums;
  bool add;
  DIST_HOST_DEVICE void operator()(std::size_t block) const {
    const std::size_t begin = block * kWidth;
    const std::size_t mine = columns - begin < kWidth ? columns - begin : kWidth;
    float sum[kWidth] = {};
    for (std::size_t r = 0; r < rows; ++r) {
#pragma omp simd
      for (std::size_t c = 0; c < mine; ++c) sum[c] += x[r * columns + begin + c];
    }
    for (std::size_t c = 0; c < mine; ++c)
      sums[begin + c] = add ? sums[begin + c] + sum[c] : sum[c];
  }
};

struct AddTo {
  const float* x;
  float* into;
  DIST_HOST_DEVICE void operator()(std::size_t i) const { into[i] += x[i]; }
};

struct Scale {
  float factor;
  float* x;
  DIST_HOST_DEVICE void operator()(std::size_t i) const { x[i] *= factor; }
};

struct SoftmaxCrossEntropy {
  std::size_t classes;
  float scale;
  const float* logits;
  const std::int32_t* targets;
  float* losses;
  float* gradient;
  DIST_HOST_DEVICE void operator()(std::size_t r) const {
    const float* row = logits + r * classes;
    // Subtract the largest logit, so that exp cannot overflow. It cancels out in the quotient.
    float largest = row[0];
    for (std::size_t c = 1; c < classes; ++c) largest = row[c] > largest ? row[c] : largest;
    float sum = 0.0F;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(row[c] - largest);
    const float log_sum = std::log(sum);
    const auto target = static_cast<std::size_t>(targets[r]);
    losses[r] = log_sum - (row[target] - largest);
    for (std::size_t c = 0; c < classes; ++c) {
      const float probability = std::exp((row[c] - largest) - log_sum);
      gradient[r * classes + c] = (probability - (c == target ? 1.0F : 0.0F)) * scale;
    }
  }
};

// Runs once for all rows, because a batch has few.
struct SumUp {
  std::size_t rows;
  const float* losses;
  StepLoss step;
  DIST_HOST_DEVICE void operator()() const {
    double sum = 0.0;
    for (std::size_t r = 0; r < rows; ++r) sum += static_cast<double>(losses[r]);
    const std::size_t part = step.is_first ? 0 : *step.part + 1;
    *step.part = part;
    step.means[part] = sum / static_cast<double>(rows);
    const auto parts = static_cast<double>(part + 1);
    double mean = 0.0;
    for (std::size_t p = 0; p <= part; ++p) mean += step.means[p] / parts;
    step.numbers[0] = mean;
    step.numbers[1] = *step.stop;
  }
};

// Neighbouring indices read neighbouring numbers, which a GPU reads together. The constants are
// those of the 64-bit FNV-1a hash.
struct HashBits {
  std::size_t count;
  const float* x;
  std::size_t threads;
  std::uint64_t* hashes;
  DIST_HOST_DEVICE void operator()(std::size_t t) const {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (std::size_t i = t; i < count; i += threads) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, x + i, sizeof bits);
      hash = (hash ^ bits) * 0x100000001b3U;
    }
    hashes[t] = hash;
  }
};

struct CountHits {
  std::size_t classes;
  const float* logits;
  const std::int32_t* targets;
  float* hits;
  DIST_HOST_DEVICE void operator()(std::size_t r) const {
    const float* row = logits + r * classes;
    std::size_t best = 0;
    for (std::size_t c = 1; c < classes; ++c) best = row[c] > row[best] ? c : best;
    hits[r] = best == static_cast<std::size_t>(targets[r]) ? 1.0F : 0.0F;
  }
};

}  // namespace

std::string why_no_kernel() {
#if DIST_WITH_CUDA
  cudaFuncAttributes attributes{};
#if DIST_CUDA_EMULATED
  const void* const kernel = nullptr;
#else
  const auto kernel = detail::for_each_index<Scale>;
#endif
  if (const cudaError_t status = cudaFuncGetAttributes(&attributes, kernel)) {
    static_cast<void>(cudaGetLastError());
    return cudaGetErrorString(status);
  }
#endif
  return "";
}

void add_bias(const Stream& stream, std::size_t rows, std::size_t columns, const float* bias,
              float* x) {
  parallel_for(stream, rows, columns, AddBias{columns, bias, x});
}

void add_bias_relu(const Stream& stream, std::size_t rows, std::size_t columns,
                   const float* bias, float* x) {
  parallel_for(stream, rows, columns, AddBiasRelu{columns, bias, x});
}

void relu_backward(const Stream& stream, std::size_t count, const float* output,
                   float* gradient) {
  parallel_for(stream, count, ReluBackward{output, gradient});
}

void column_sums(const Stream& stream, std::size_t rows, std::size_t columns, const float* x,
                 float* sums, bool add) {
  // A CPU core reads 128 columns of a row as eight cache lines in a row, five times as fast as
  // one line of every row. On a GPU, neighbouring threads share a line, and one column per
  // index gives more threads.
  const auto sum_blocks_of = [&]<std::size_t kWidth>(ColumnSums<kWidth> body) {
    parallel_for(stream, (columns + kWidth - 1) / kWidth, body);
  };
  if (stream.device().is_cpu()) {
    sum_blocks_of(ColumnSums<128>{rows, columns, x, sums, add});
  } else {
    sum_blocks_of(ColumnSums<1>{rows, columns, x, sums, add});
  }
}

void add_to(const Stream& stream, std::size_t count, const float* x, float* into) {
  parallel_for(stream, count, AddTo{x, into});
}

void scale(const Stream& stream, std::size_t count, float factor, float* x) {
  parallel_for(stream, count, Scale{factor, x});
}

void softmax_cross_entropy(const Stream& stream, std::size_t rows, std::size_t classes,
                           const float* logits, const std::int32_t* targets, float* losses,
                           float* gradient, float scale) {
  parallel_for(stream, rows,
               SoftmaxCrossEntropy{classes, scale, logits, targets, losses, gradient});
}

void softmax_cross_entropy(const Stream& stream, std::size_t rows, std::size_t classes,
                           const float* logits, const std::int32_t* targets, float* losses,
                           float* gradient, float scale, const StepLoss& step) {
  parallel_for_then(stream, rows,
                    SoftmaxCrossEntropy{classes, scale, logits, targets, losses, gradient},
                    SumUp{rows, losses, step}, step.blocks_done);
}

void hash_bits(const Stream& stream, std::size_t count, const float* x, std::size_t threads,
               std::uint64_t* hashes) {
  parallel_for(stream, threads, HashBits{count, x, threads, hashes});
}

void count_hits(const Stream& stream, std::size_t rows, std::size_t classes,
                const float* logits, const std::int32_t* targets, float* hits) {
  parallel_for(stream, rows, CountHits{classes, logits, targets, hits});
}

}  // namespace dist
