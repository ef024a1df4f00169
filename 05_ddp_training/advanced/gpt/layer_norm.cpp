#include "05_ddp_training/advanced/gpt/layer_norm.hpp"

#include "05_ddp_training/model/parallel_for.hpp"

#include <cmath>

namespace dist::gpt {
namespace {

// An index is a row.
struct Normalise {
  std::size_t width;
  const float *x, *weight, *bias;
  float *normal, *scale, *y;
  DIST_HOST_DEVICE void operator()(std::size_t r) const {
    const float* from = x + r * width;
    const auto count = static_cast<float>(width);
    float sum = 0.0F, squares = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (std::size_t c = 0; c < width; ++c) sum += from[c];
    const float mean = sum / count;
#pragma omp simd reduction(+ : squares)
    for (std::size_t c = 0; c < width; ++c) squares += (from[c] - mean) * (from[c] - mean);
    const float its_scale = scale[r] = 1.0F / std::sqrt(squares / count + 1e-5F);
    for (std::size_t c = 0; c < width; ++c) {
      const float n = normal[r * width + c] = (from[c] - mean) * its_scale;
      y[r * width + c] = std::fma(n, weight[c], bias[c]);
    }
  }
};

// An index is a row. The result has the same mean and length whatever those of x are. So a
// change of x that changes only these does not change the loss: it is taken out of the
// gradient.
//   g = grad_y weight      grad_x = scale (g - mean(g) - normal mean(g normal))
struct NormaliseBackward {
  std::size_t width;
  const float *normal, *scale, *weight, *grad_y;
  float* grad_x;
  DIST_HOST_DEVICE void operator()(std::size_t r) const {
    const float *n = normal + r * width, *from = grad_y + r * width;
    const auto count = static_cast<float>(width);
    float sum = 0.0F, along = 0.0F;
#pragma omp simd reduction(+ : sum, along)
    for (std::size_t c = 0; c < width; ++c) {
      sum += from[c] * weight[c];
      along += from[c] * weight[c] * n[c];
    }
    const float mean = sum / count, mean_along = along / count;
    for (std::size_t c = 0; c < width; ++c) {
      const float g = from[c] * weight[c] - mean - n[c] * mean_along;
      grad_x[r * width + c] = g * scale[r];
    }
  }
};

// The gradients of weight and bias, sums over the rows of grad_y normal and of grad_y. An index
// owns `block` columns, and adds from the first row to the last.
struct SumColumns {
  std::size_t rows, width, block;
  const float *normal, *grad_y;
  float *grad_weight, *grad_bias;
  bool add;
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    const std::size_t begin = i * block, end = width < begin + block ? width : begin + block;
    for (std::size_t c = begin; !add && c < end; ++c) grad_weight[c] = grad_bias[c] = 0.0F;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = begin; c < end; ++c) {
        grad_weight[c] = std::fma(grad_y[r * width + c], normal[r * width + c], grad_weight[c]);
        grad_bias[c] += grad_y[r * width + c];
      }
    }
  }
};

}  // namespace

Tensor LayerNorm::forward(const Tensor& x, const Pass& pass) {
  normal_ = pass.make(x.shape());
  scale_ = pass.make({x.dim(0)});
  const Tensor y = pass.make(x.shape());
  parallel_for(pass.stream, x.dim(0),
               Normalise{x.dim(1), x.data(), pass.value(weight_).data(),
                         pass.value(bias_).data(), normal_.data(), scale_.data(), y.data()});
  return y;
}

Tensor LayerNorm::backward(const Tensor& grad_y, const Pass& pass) {
  const std::size_t rows = grad_y.dim(0), width = grad_y.dim(1);
  const std::size_t block = pass.stream.device().is_cpu() ? 128 : 1;  // as in column_sums
  parallel_for(pass.stream, blocks_of(width, block),
               SumColumns{rows, width, block, normal_.data(), grad_y.data(),
                          pass.grad(weight_).data(), pass.grad(bias_).data(), pass.add});
  pass.complete(weight_, bias_);
  const Tensor grad_x = pass.make(grad_y.shape());
  parallel_for(pass.stream, rows,
               NormaliseBackward{width, normal_.data(), scale_.data(),
                                 pass.value(weight_).data(), grad_y.data(), grad_x.data()});
  return grad_x;
}

}  // namespace dist::gpt
