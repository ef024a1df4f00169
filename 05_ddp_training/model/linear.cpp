#include "05_ddp_training/model/linear.hpp"

#include "05_ddp_training/model/parallel_for.hpp"

#if DIST_WITH_CUDA
#include "05_ddp_training/model/fused_gemm.hpp"
#endif

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

#if DIST_WITH_CUDA
// Whether a GPU has been given the product and its epilogue as one kernel.
bool is_fused(const Stream& stream, Transpose transpose_a, Transpose transpose_b,
              const Factor& a, const Factor& b, const Tensor& c, const Epilogue& epilogue) {
  return !stream.device().is_cpu() &&
         fused_gemm(stream, transpose_a, transpose_b, a, b, c, epilogue);
}
#endif

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

ReluMask::ReluMask(std::size_t rows, std::size_t width, Device device)
    : pitch_((width + 127) / 128 * 128),
      bits_(device.is_cpu() ? 0 : rows * pitch_ / 32, device) {}

void linear(const Stream& stream, const Factor& x, const Factor& weight, const Tensor& bias,
            const Tensor& y) {
#if DIST_WITH_CUDA
  if (is_fused(stream, Transpose::no, Transpose::yes, x, weight, y,
               {.kind = Epilogue::Kind::add_bias, .bias = bias.data()})) {
    return;
  }
#endif
  gemm(stream, Transpose::no, Transpose::yes, 1.0F, x, weight, 0.0F, y);
  add_bias(stream, y.dim(0), y.dim(1), bias.data(), y.data());
}

void linear_relu(const Stream& stream, const Factor& x, const Factor& weight,
                 const Tensor& bias, const Tensor& y, ReluMask& mask) {
  mask.is_written = false;
#if DIST_WITH_CUDA
  mask.is_written = is_fused(stream, Transpose::no, Transpose::yes, x, weight, y,
                             {.kind = Epilogue::Kind::add_bias_relu,
                              .bias = bias.data(),
                              .mask = mask.data(),
                              .pitch = mask.pitch()});
  if (mask.is_written) return;
#endif
  gemm(stream, Transpose::no, Transpose::yes, 1.0F, x, weight, 0.0F, y);
  add_bias_relu(stream, y.dim(0), y.dim(1), bias.data(), y.data());
}

void linear_backward(const Stream& stream, const Factor& grad_y, const Factor& x, bool add,
                     const Tensor& grad_weight, const Tensor& grad_bias) {
#if DIST_WITH_CUDA
  // The epilogue replaces the sums, so it cannot add to them.
  if (!add && is_fused(stream, Transpose::yes, Transpose::no, grad_y, x, grad_weight,
                       {.kind = Epilogue::Kind::column_sums, .bias = grad_bias.data()})) {
    return;
  }
#endif
  gemm(stream, Transpose::yes, Transpose::no, 1.0F, grad_y, x, add ? 1.0F : 0.0F, grad_weight);
  const Tensor& g = grad_y.matrix;
  column_sums(stream, g.dim(0), g.dim(1), g.data(), grad_bias.data(), add);
}

void linear_backward_to_relu(const Stream& stream, const Factor& grad_y, const Factor& weight,
                             const Tensor& x, [[maybe_unused]] const ReluMask& mask,
                             const Tensor& grad_x) {
#if DIST_WITH_CUDA
  if (mask.is_written && is_fused(stream, Transpose::no, Transpose::no, grad_y, weight, grad_x,
                                  {.kind = Epilogue::Kind::relu_backward,
                                   .mask = mask.data(),
                                   .pitch = mask.pitch()})) {
    return;
  }
#endif
  gemm(stream, Transpose::no, Transpose::no, 1.0F, grad_y, weight, 0.0F, grad_x);
  relu_backward(stream, grad_x.numel(), x.data(), grad_x.data());
}

}  // namespace dist
