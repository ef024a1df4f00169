// Each operation is a struct, which says what one index reads and writes, and a function that
// runs it over all indices.
//
// Compiled by nvcc in a CUDA build, by the C++ compiler otherwise, and without contraction in
// both (no a * b + c in one rounding), so that only what is written as std::fma is fused.
#include "05_ddp_training/model/kernels.hpp"

#include "common/parallel_for.hpp"

#include <cmath>

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

// One index owns `width` neighbouring columns and adds each from the first row to the last, so
// the width cannot show in the sums.
struct ColumnSums {
  static constexpr std::size_t kWidest = 16;
  std::size_t width, rows, columns;
  const float* x;
  float* sums;
  bool add;
  DIST_HOST_DEVICE void operator()(std::size_t block) const {
    const std::size_t begin = block * width;
    const std::size_t mine = columns - begin < width ? columns - begin : width;
    float sum[kWidest] = {};
    for (std::size_t r = 0; r < rows; ++r) {
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
    // Less the largest, so that exp cannot overflow; it cancels in the quotient.
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

// PyTorch leaves a part out when its factor is 0, and so do we: with an infinite parameter,
// 0 times it is not 0. A condition that is the same for all indices costs nothing, as the
// compiler decides it outside the loop or for a whole vector at once.
struct SgdStep {
  SgdFactors f;
  const float* gradient;
  float* parameter;
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    const float p = parameter[i];
    const float g =
        f.weight_decay == 0.0F ? gradient[i] : std::fma(p, f.weight_decay, gradient[i]);
    parameter[i] = std::fma(g, -f.lr, p);
  }
};

struct SgdMomentumStep {
  SgdFactors f;
  const float* gradient;
  float *parameter, *buffer;
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    const float p = parameter[i];
    const float g =
        f.weight_decay == 0.0F ? gradient[i] : std::fma(p, f.weight_decay, gradient[i]);
    const float b =
        f.first_step ? g : std::fma(g, f.one_minus_dampening, buffer[i] * f.momentum);
    buffer[i] = b;
    parameter[i] = std::fma(f.nesterov ? std::fma(b, f.momentum, g) : b, -f.lr, p);
  }
};

struct AdamStep {
  AdamFactors f;
  const float* gradient;
  float *parameter, *m, *v;
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    const float p = parameter[i] * f.parameter_scale;
    const float g =
        f.gradient_decay == 0.0F ? gradient[i] : std::fma(p, f.gradient_decay, gradient[i]);
    m[i] = std::fma(g, f.one_minus_beta1, m[i] * f.beta1);
    v[i] = std::fma(f.one_minus_beta2 * g, g, v[i] * f.beta2);
    // eps after the correction and the root, as in PyTorch; inside the root it is another
    // method.
    const float denominator = std::sqrt(v[i]) / f.root_correction + f.eps;
    parameter[i] = p + (-f.step_size * m[i]) / denominator;
  }
};

// A sum as a tree: one index adds a block, the next pass adds the blocks' sums, until one is
// left. Which element goes where depends on nothing but `count`. Eight sums side by side, so
// that a CPU adds them in one instruction instead of waiting for each.
struct SumBlock {
  static constexpr std::size_t kSize = 256;
  static constexpr std::size_t kLanes = 8;
  std::size_t count;
  const float* squared;  // the first pass squares these ...
  const double* plain;   // ... and the later ones add these
  double* sums;

  DIST_HOST_DEVICE double term(std::size_t i) const {
    if (squared == nullptr) return plain[i];
    const double x = squared[i];
    return x * x;  // of no float more than a double holds
  }
  DIST_HOST_DEVICE void operator()(std::size_t block) const {
    const std::size_t end = count - block * kSize < kSize ? count : (block + 1) * kSize;
    std::size_t i = block * kSize;
    double lane[kLanes] = {};
    for (; i + kLanes <= end; i += kLanes) {
      for (std::size_t l = 0; l < kLanes; ++l) lane[l] += term(i + l);
    }
    for (std::size_t l = 0; i < end; ++i, ++l) lane[l] += term(i);
    double sum = 0.0;
    for (const double part : lane) sum += part;
    sums[block] = sum;
  }
};

std::size_t sum_blocks(std::size_t count) {
  return count <= 1 ? 1 : (count + SumBlock::kSize - 1) / SumBlock::kSize;
}

}  // namespace

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
  // A CPU core reads a cache line at a time: 16 columns for the price of one. On a GPU
  // neighbouring threads share it, and there are never enough threads.
  const std::size_t width = stream.device().is_cpu() ? ColumnSums::kWidest : 1;
  parallel_for(stream, (columns + width - 1) / width,
               ColumnSums{width, rows, columns, x, sums, add});
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

void count_hits(const Stream& stream, std::size_t rows, std::size_t classes,
                const float* logits, const std::int32_t* targets, float* hits) {
  parallel_for(stream, rows, CountHits{classes, logits, targets, hits});
}

void sgd_step(const Stream& stream, std::size_t count, const SgdFactors& factors,
              const float* gradient, float* parameter) {
  parallel_for(stream, count, SgdStep{factors, gradient, parameter});
}

void sgd_momentum_step(const Stream& stream, std::size_t count, const SgdFactors& factors,
                       const float* gradient, float* parameter, float* buffer) {
  parallel_for(stream, count, SgdMomentumStep{factors, gradient, parameter, buffer});
}

void adam_step(const Stream& stream, std::size_t count, const AdamFactors& factors,
               const float* gradient, float* parameter, float* m, float* v) {
  parallel_for(stream, count, AdamStep{factors, gradient, parameter, m, v});
}

std::size_t sum_of_squares_size(std::size_t count) {
  std::size_t size = 0;
  do {
    count = sum_blocks(count);
    size += count;
  } while (count > 1);
  return size;
}

const double* sum_of_squares(const Stream& stream, std::size_t count, const float* x,
                             double* sums) {
  const double* plain = nullptr;
  for (;;) {
    const std::size_t blocks = sum_blocks(count);
    parallel_for(stream, blocks, SumBlock{count, plain == nullptr ? x : nullptr, plain, sums});
    if (blocks == 1) return sums;
    count = blocks;
    plain = sums;
    sums += blocks;
  }
}

}  // namespace dist
