// A matrix product on a GPU and what follows it in one kernel: an epilogue of cuBLASLt. The
// plain versions, a product and then a kernel of ours, are in linear.cpp.
#pragma once

#include "05_ddp_training/model/gemm.hpp"

#include <cstdint>

namespace dist {

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
  // One bit for each element of c, 1 where ReLU passed it on. Row r begins at bit r * pitch.
  std::uint32_t* mask = nullptr;
  std::size_t pitch = 0;  // a multiple of 128
};

// c = op(a) op(b), as gemm, then `epilogue`. Returns false and queues nothing if cuBLASLt has
// no such kernel for this GPU, these shapes and these addresses.
bool fused_gemm(const Stream& stream, Transpose transpose_a, Transpose transpose_b,
                const Factor& a, const Factor& b, const Tensor& c, const Epilogue& epilogue);

}  // namespace dist
