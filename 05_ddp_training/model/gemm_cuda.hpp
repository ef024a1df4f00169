// What this file adds: gemm on a GPU, by cuBLAS, and a product and what follows it in one
// kernel: an epilogue of cuBLASLt. The plain versions, a product and then a kernel of ours, are
// in linear.cpp.
#pragma once

#include "05_ddp_training/model/gemm.hpp"
#include "common/build_config.hpp"

namespace dist {

struct ReluMask;  // linear.hpp

struct Epilogue {
  enum class Kind {
    add_bias,       // c[r][j] += bias[j]
    add_bias_relu,  // the same, then ReLU, and writes `mask`
    column_sums,    // bias[j] = the sum over r of a[r][j], where the product reads a transposed
                    // (and perhaps rounded)
    relu_backward,  // c[r][j] = 0 where `mask` says so
  };
  Kind kind;
  float* bias = nullptr;
  const ReluMask* mask = nullptr;  // one bit for each element of c, 1 where ReLU passed it on
};

// c = op(a) op(b), as gemm, then `epilogue`. Returns false and queues nothing on a CPU, and if
// cuBLASLt has no such kernel for this GPU, these shapes and these addresses.
#if DIST_WITH_CUDA
bool fused_gemm(const Stream& stream, Transpose transpose_a, Transpose transpose_b,
                const Operand& a, const Operand& b, const Tensor& c, const Epilogue& epilogue);
#else
inline bool fused_gemm(const Stream&, Transpose, Transpose, const Operand&, const Operand&,
                       const Tensor&, const Epilogue&) {
  return false;
}
#endif

// gemm and batched_gemm (gemm.hpp), after their checks: op(a) is (m, k), c is (m, n), or there
// are `count` of each.
void gemm_cuda(const Stream& stream, Transpose transpose_a, Transpose transpose_b,
               const Operand& a, const Operand& b, float beta, const Tensor& c);

}  // namespace dist
