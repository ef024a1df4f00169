// Lesson 5: a linear layer's products, forward and backward, compared with plain loops in
// double precision. On a GPU, cuBLASLt may compute a product and what follows it in one kernel;
// both ways must give these numbers. So must products in bf16, because bfloat16 holds the
// numbers exactly.
#include "05_ddp_training/model/linear.hpp"

#include "05_ddp_training/model/bf16.hpp"
#include "common/buffer.hpp"
#include "tests/support/lesson05.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

struct Sizes {
  std::size_t rows, in, out;
};
// Around the 128 bits to which a row of a mask is rounded up, and the smallest layer.
const std::vector<Sizes> kSizes{{1, 1, 1}, {7, 5, 128}, {3, 129, 10}, {16, 33, 129}};

// A matrix that begins `offset` floats after an aligned address, as views of buckets do.
Tensor upload_at(const Stream& stream, std::size_t offset, const Floats& values,
                 const Shape& shape) {
  Floats padded(offset);
  padded.insert(padded.end(), values.begin(), values.end());
  return upload(stream, padded).narrow(offset, values.size()).view(shape);
}

Floats rounded_noise(std::size_t count, std::uint64_t seed) {
  Floats values = noise(count, seed);
  for (float& value : values) value = to_float(to_bf16(value));
  return values;
}

struct Layer {
  Layer(const Sizes& n, std::uint64_t seed)
      : x(rounded_noise(n.rows * n.in, seed)),
        weight(rounded_noise(n.out * n.in, seed + 1)),
        bias(noise(n.out, seed + 2)),
        grad_y(rounded_noise(n.rows * n.out, seed + 3)) {
    for (float& value : x) value = std::max(value, 0.0F);  // the output of a ReLU
  }
  Floats x, weight, bias, grad_y;
};

// The sum over k of a[i * row_a + k * step_a] * b[j * row_b + k * step_b], for each i and j.
Numbers product(std::size_t m, std::size_t n, std::size_t k, const Floats& a, std::size_t row_a,
                std::size_t step_a, const Floats& b, std::size_t row_b, std::size_t step_b) {
  Numbers sums(m * n);
  for (std::size_t i = 0; i < m * n * k; ++i) {
    const std::size_t row = i / (n * k);
    const std::size_t column = i / k % n;
    sums[i / k] += static_cast<double>(a[row * row_a + i % k * step_a]) *
                   static_cast<double>(b[column * row_b + i % k * step_b]);
  }
  return sums;
}

}  // namespace

TEST_CASE("a linear layer adds its bias, with and without ReLU", "[gpu][one process]") {
  for (const Sizes& n : kSizes) {
    const Layer layer(n, n.in);
    Numbers want = product(n.rows, n.out, n.in, layer.x, n.in, 1, layer.weight, n.in, 1);
    for (std::size_t i = 0; i < want.size(); ++i) {
      want[i] += static_cast<double>(layer.bias[i % n.out]);
    }
    Numbers want_relu = want;
    for (double& value : want_relu) value = std::max(value, 0.0);
    for (const auto& [device, precision] : kinds()) {
      CAPTURE(to_string(device), precision, n.rows, n.in, n.out);
      const Stream stream(device);
      Operands operands(precision);
      const Operand x = operands.of(stream, 0, upload(stream, layer.x, {n.rows, n.in}));
      const Operand weight =
          operands.of(stream, 1, upload_at(stream, 1, layer.weight, {n.out, n.in}));
      const Tensor bias = upload_at(stream, 2, layer.bias, {n.out});
      const Tensor y({n.rows, n.out}, device);
      ReluMask mask(n.rows, n.out, device);
      linear(stream, x, weight, bias, y);
      CHECK(largest_error(to_host(stream, y), want) < 1e-5);
      linear(stream, x, weight, bias, y, &mask);
      CHECK(largest_error(to_host(stream, y), want_relu) < 1e-5);
    }
  }
}

TEST_CASE("a linear layer's backward computes or adds the gradients of its parameters",
          "[gpu][one process]") {
  for (const Sizes& n : kSizes) {
    const Layer layer(n, n.out);
    const Floats ones(n.rows, 1.0F);
    const Numbers of_weight =
        product(n.out, n.in, n.rows, layer.grad_y, 1, n.out, layer.x, 1, n.in);
    const Numbers of_bias = product(1, n.out, n.rows, ones, 0, 1, layer.grad_y, 1, n.out);
    for (const auto& [device, precision] : kinds()) {
      CAPTURE(to_string(device), precision, n.rows, n.in, n.out);
      const Stream stream(device);
      Operands operands(precision);
      const Operand x = operands.of(stream, 0, upload(stream, layer.x, {n.rows, n.in}));
      const Operand grad_y =
          operands.of(stream, 2, upload(stream, layer.grad_y, {n.rows, n.out}));
      // Not 0, since whoever replaces the gradients must not read them.
      const Tensor grad_weight = upload_at(stream, 3, layer.weight, {n.out, n.in});
      const Tensor grad_bias = upload_at(stream, 1, layer.bias, {n.out});
      for (const double times : {1.0, 2.0}) {
        linear_backward(stream, grad_y, x, times > 1, grad_weight, grad_bias);
        const auto scaled = [&](Numbers numbers) {
          for (double& number : numbers) number *= times;
          return numbers;
        };
        CHECK(largest_error(to_host(stream, grad_weight), scaled(of_weight)) < 1e-5);
        CHECK(largest_error(to_host(stream, grad_bias), scaled(of_bias)) < 1e-5);
      }
    }
  }
}

TEST_CASE("the gradient passes a ReLU where the ReLU's output is above zero",
          "[gpu][one process]") {
  for (const Sizes& n : kSizes) {
    const Layer below({n.rows, 4, n.in}, 17 * n.in);
    const Layer layer(n, n.rows);
    for (const auto& [device, precision] : kinds()) {
      CAPTURE(to_string(device), precision, n.rows, n.in, n.out);
      const Stream stream(device);
      Operands operands(precision);
      const Tensor x({n.rows, n.in}, device);
      ReluMask mask(n.rows, n.in, device);
      linear(stream, upload(stream, below.x, {n.rows, 4}),
             upload(stream, below.weight, {n.in, 4}), upload(stream, below.bias), x, &mask);
      const Operand grad_y =
          operands.of(stream, 2, upload(stream, layer.grad_y, {n.rows, n.out}));
      const Operand weight =
          operands.of(stream, 1, upload_at(stream, 1, layer.weight, {n.out, n.in}));
      Numbers want =
          product(n.rows, n.in, n.out, layer.grad_y, n.out, 1, layer.weight, 1, n.in);
      const Floats outputs = to_host(stream, x);
      for (std::size_t i = 0; i < want.size(); ++i) {
        if (outputs[i] == 0.0F) want[i] = 0;
      }
      if (n.in > 1) CHECK(std::ranges::count(outputs, 0.0F) > 0);
      const Tensor grad_x({n.rows, n.in}, device);
      linear_backward_to_relu(stream, grad_y, weight, x, mask, grad_x);
      CHECK(largest_error(to_host(stream, grad_x), want) < 1e-5);
      // Otherwise this does not test the epilogues, which cuBLASLt refuses for a single row.
      if (is_emulated()) CHECK(mask.is_written == (!device.is_cpu() && n.rows > 1));
    }
  }
}
