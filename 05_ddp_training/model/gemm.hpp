// Matrix product: c = op(a) * op(b) + beta * c.
#pragma once

#include "05_ddp_training/model/bf16.hpp"
#include "common/tensor.hpp"

#include <string>

namespace dist {

enum class Transpose { no, yes };

// op(a) is (m, k), op(b) is (k, n), c is (m, n), where op(x) is x or its transpose. All three
// are on the stream's device. If beta is 0, c is not read. Uses cuBLAS on CUDA devices. On the
// CPU, uses oneDNN or OpenBLAS (matmul_library.hpp), or a plain loop if neither is installed.
// If both operands have rounded copies, multiplies those and adds in float32. Throws Error if
// the shapes do not fit.
void gemm(const Stream& stream, Transpose transpose_a, Transpose transpose_b, const Operand& a,
          const Operand& b, float beta, const Tensor& c);

// The same for each matrix of a batch, as torch.bmm: op(a) is (count, m, k), op(b) is
// (count, k, n), and c is (count, m, n). Several threads share the matrices, if each is small.
void batched_gemm(const Stream& stream, Transpose transpose_a, Transpose transpose_b,
                  const Operand& a, const Operand& b, float beta, const Tensor& c);

// The plain loop, on the CPU. The tests compare the libraries' results with its own.
void gemm_reference(Transpose transpose_a, Transpose transpose_b, const Operand& a,
                    const Operand& b, float beta, const Tensor& c);

// Why products of rounded operands are not fast on this device; empty if they are.
std::string why_no_bf16(Device device);

}  // namespace dist
