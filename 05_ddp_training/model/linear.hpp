// The three matrix products of a linear layer, each with what belongs to it: the bias and the
// ReLU, the gradient of the bias, the gradient of the ReLU.
//
// Shapes: x is (rows, in), weight (out, in), bias (out), y (rows, out), and each gradient has
// the shape of what it belongs to.
#pragma once

#include "05_ddp_training/model/gemm.hpp"
#include "common/buffer.hpp"

#include <cstddef>
#include <cstdint>

namespace dist {

// Which outputs of a ReLU are not 0, for its backward on a GPU. Without a mask, backward reads
// the outputs.
struct ReluMask {
  ReluMask(std::size_t rows, std::size_t width, Device device)
      : pitch((width + 127) / 128 * 128),
        bits(device.is_cpu() ? 0 : rows * pitch / 32, device) {}

  std::size_t pitch;  // a multiple of 128: row r begins at bit r * pitch
  Buffer<std::uint32_t> bits;
  bool is_written = false;  // by the last forward
};

// y = x weight^T + bias; with a mask for it, followed by ReLU: negative numbers become 0.
void linear(const Stream& stream, const Operand& x, const Operand& weight, const Tensor& bias,
            const Tensor& y, ReluMask* relu = nullptr);

// grad_weight = grad_y^T x, and grad_bias = the column sums of grad_y (on a GPU perhaps of its
// rounded copy). If `add` is true, adds to both instead.
void linear_backward(const Stream& stream, const Operand& grad_y, const Operand& x, bool add,
                     const Tensor& grad_weight, const Tensor& grad_bias);
// grad_x = grad_y weight, and 0 where x, the output of a linear with `mask`, is 0.
void linear_backward_to_relu(const Stream& stream, const Operand& grad_y, const Operand& weight,
                             const Tensor& x, const ReluMask& mask, const Tensor& grad_x);

// What these consist of, apart from the products. Each queues its work on `stream`.

// x[r][c] += bias[c], where x is (rows, columns); with `relu`, negative sums become 0.
void add_bias(const Stream& stream, std::size_t rows, std::size_t columns, const float* bias,
              float* x, bool relu = false);
// gradient[i] = 0 where the ReLU's output was 0.
void relu_backward(const Stream& stream, std::size_t count, const float* output,
                   float* gradient);

}  // namespace dist
