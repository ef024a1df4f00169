// Compiled by nvcc in a CUDA build, by the C++ compiler otherwise, and with -ffp-contract=off
// in both, so that only what is written as std::fma is fused.
#include "05_ddp_training/kernels.hpp"

#include "common/parallel_for.hpp"

#include <cmath>

namespace dist {

void add_bias(const Stream& stream, std::size_t rows, std::size_t columns, const float* bias,
              float* x) {
  parallel_for(stream, rows, columns, [=] DIST_HOST_DEVICE(std::size_t r, std::size_t c) {
    x[r * columns + c] += bias[c];
  });
}

void add_bias_relu(const Stream& stream, std::size_t rows, std::size_t columns,
                   const float* bias, float* x) {
  parallel_for(stream, rows, columns, [=] DIST_HOST_DEVICE(std::size_t r, std::size_t c) {
    const float sum = x[r * columns + c] + bias[c];
    x[r * columns + c] = sum > 0.0F ? sum : 0.0F;
  });
}

void relu_backward(const Stream& stream, std::size_t count, const float* output,
                   float* gradient) {
  parallel_for(stream, count, [=] DIST_HOST_DEVICE(std::size_t i) {
    gradient[i] = output[i] > 0.0F ? gradient[i] : 0.0F;
  });
}

void column_sums(const Stream& stream, std::size_t rows, std::size_t columns, const float* x,
                 float* sums) {
  // One index owns this many neighbouring columns: a matrix is stored by rows, and reading a
  // cache line for one number of it would be 16 times the work.
  constexpr std::size_t kWidth = 16;
  parallel_for(stream, (columns + kWidth - 1) / kWidth,
               [=] DIST_HOST_DEVICE(std::size_t block) {
                 const std::size_t begin = block * kWidth;
                 const std::size_t width = columns - begin < kWidth ? columns - begin : kWidth;
                 float sum[kWidth] = {};
                 for (std::size_t r = 0; r < rows; ++r) {
                   for (std::size_t c = 0; c < width; ++c) sum[c] += x[r * columns + begin + c];
                 }
                 for (std::size_t c = 0; c < width; ++c) sums[begin + c] = sum[c];
               });
}

void softmax_cross_entropy(const Stream& stream, std::size_t rows, std::size_t classes,
                           const float* logits, const std::int32_t* targets, float* losses,
                           float* gradient) {
  const float scale = 1.0F / static_cast<float>(rows);
  parallel_for(stream, rows, [=] DIST_HOST_DEVICE(std::size_t r) {
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
  });
}

void count_hits(const Stream& stream, std::size_t rows, std::size_t classes,
                const float* logits, const std::int32_t* targets, float* hits) {
  parallel_for(stream, rows, [=] DIST_HOST_DEVICE(std::size_t r) {
    const float* row = logits + r * classes;
    std::size_t best = 0;
    for (std::size_t c = 1; c < classes; ++c) best = row[c] > row[best] ? c : best;
    hits[r] = best == static_cast<std::size_t>(targets[r]) ? 1.0F : 0.0F;
  });
}

void sgd_step(const Stream& stream, std::size_t count, float lr, const float* gradient,
              float* parameter) {
  parallel_for(stream, count, [=] DIST_HOST_DEVICE(std::size_t i) {
    parameter[i] = std::fma(gradient[i], -lr, parameter[i]);
  });
}

void adam_step(const Stream& stream, std::size_t count, AdamFactors f, const float* gradient,
               float* parameter, float* m, float* v) {
  parallel_for(stream, count, [=] DIST_HOST_DEVICE(std::size_t i) {
    const float g = gradient[i];
    m[i] = std::fma(g, f.one_minus_beta1, m[i] * f.beta1);
    v[i] = std::fma(f.one_minus_beta2 * g, g, v[i] * f.beta2);
    // eps after the correction and the root, as in PyTorch; inside the root it is another
    // method.
    const float denominator = std::sqrt(v[i]) / f.root_correction + f.eps;
    parameter[i] = parameter[i] + (-f.step_size * m[i]) / denominator;
  });
}

}  // namespace dist
