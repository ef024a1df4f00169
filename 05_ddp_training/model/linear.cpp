#include "05_ddp_training/model/linear.hpp"

#include "05_ddp_training/model/gemm_cuda.hpp"
#include "05_ddp_training/model/parallel_for.hpp"

namespace dist {
namespace {

// One index owns `width` neighbouring elements of a row.
struct AddBias {
  std::size_t width, columns;
  const float* bias;
  float* x;
  bool relu;
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    const float* b = bias + i * width % columns;
    float* mine = x + i * width;
#pragma omp simd
    for (std::size_t c = 0; c < width; ++c) {
      const float sum = mine[c] + b[c];
      // A comparison with NaN is false. So NaN stays NaN, as in PyTorch, and shows in the loss.
      mine[c] = relu && sum <= 0.0F ? 0.0F : sum;
    }
  }
};

struct ReluBackward {
  const float* output;
  float* gradient;
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    gradient[i] = output[i] <= 0.0F ? 0.0F : gradient[i];
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

// sums[c] = sum over r of x[r][c], where x is (rows, columns): the gradient of a bias. If `add`
// is true, adds to the existing sums.
void column_sums(const Stream& stream, std::size_t rows, std::size_t columns, const float* x,
                 float* sums, bool add) {
  // A CPU core reads 128 columns of a row as eight cache lines in a row, five times as fast as
  // one line of every row. On a GPU, neighbouring threads share a line, and one column per
  // index gives more threads.
  if (stream.device().is_cpu()) {
    parallel_for(stream, blocks_of(columns, 128), ColumnSums<128>{rows, columns, x, sums, add});
  } else {
    parallel_for(stream, columns, ColumnSums<1>{rows, columns, x, sums, add});
  }
}

}  // namespace

void add_bias(const Stream& stream, std::size_t rows, std::size_t columns, const float* bias,
              float* x, bool relu) {
  if (columns == 0) return;
  // On a CPU, one index owns a whole row, because a division per element would take longer than
  // its addition. On a GPU, one element per index gives more threads.
  const std::size_t width = stream.device().is_cpu() ? columns : 1;
  parallel_for(stream, rows * (columns / width), AddBias{width, columns, bias, x, relu});
}

void relu_backward(const Stream& stream, std::size_t count, const float* output,
                   float* gradient) {
  parallel_for(stream, count, ReluBackward{output, gradient});
}

void linear(const Stream& stream, const Operand& x, const Operand& weight, const Tensor& bias,
            const Tensor& y, ReluMask* relu) {
  using Kind = Epilogue::Kind;
  const bool fused = fused_gemm(
      stream, Transpose::no, Transpose::yes, x, weight, y,
      {.kind = relu ? Kind::add_bias_relu : Kind::add_bias, .bias = bias.data(), .mask = relu});
  if (relu != nullptr) relu->is_written = fused;
  if (fused) return;
  gemm(stream, Transpose::no, Transpose::yes, x, weight, 0.0F, y);
  add_bias(stream, y.dim(0), y.dim(1), bias.data(), y.data(), relu != nullptr);
}

void linear_backward(const Stream& stream, const Operand& grad_y, const Operand& x, bool add,
                     const Tensor& grad_weight, const Tensor& grad_bias) {
  // The epilogue replaces the sums, so it cannot add to them.
  if (!add && fused_gemm(stream, Transpose::yes, Transpose::no, grad_y, x, grad_weight,
                         {.kind = Epilogue::Kind::column_sums, .bias = grad_bias.data()})) {
    return;
  }
  gemm(stream, Transpose::yes, Transpose::no, grad_y, x, add ? 1.0F : 0.0F, grad_weight);
  const Tensor& g = grad_y.matrix;
  column_sums(stream, g.dim(0), g.dim(1), g.data(), grad_bias.data(), add);
}

void linear_backward_to_relu(const Stream& stream, const Operand& grad_y, const Operand& weight,
                             const Tensor& x, const ReluMask& mask, const Tensor& grad_x) {
  if (mask.is_written &&
      fused_gemm(stream, Transpose::no, Transpose::no, grad_y, weight, grad_x,
                 {.kind = Epilogue::Kind::relu_backward, .mask = &mask})) {
    return;
  }
  gemm(stream, Transpose::no, Transpose::no, grad_y, weight, 0.0F, grad_x);
  relu_backward(stream, grad_x.numel(), x.data(), grad_x.data());
}

}  // namespace dist
