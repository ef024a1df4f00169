// Matrix product: c = alpha * op(a) * op(b) + beta * c.
#pragma once

#include "common/tensor.hpp"

namespace dist {

enum class Transpose { no, yes };

// op(a) is (m, k), op(b) is (k, n), c is (m, n), where op(x) is x or its transpose. All three
// are on the stream's device. If beta is 0, c is not read. Uses cuBLAS on CUDA devices. On the
// CPU, uses oneDNN, or a plain loop if oneDNN is not installed. Throws Error if the shapes do
// not fit.
void gemm(const Stream& stream, Transpose transpose_a, Transpose transpose_b, float alpha,
          const Tensor& a, const Tensor& b, float beta, const Tensor& c);

// The plain loop, on the CPU. The tests compare the libraries' results with its own.
void gemm_reference(Transpose transpose_a, Transpose transpose_b, float alpha, const Tensor& a,
                    const Tensor& b, float beta, const Tensor& c);

}  // namespace dist
