// cuBLAS, for one stream.
#pragma once

#include "common/buffer.hpp"
#include "common/stream.hpp"

#include <cublas_v2.h>

#include <cstddef>
#include <memory>

namespace dist {

struct FusedProducts;  // fused_gemm.cpp

struct Cublas {
  std::unique_ptr<cublasContext, cublasStatus_t (*)(cublasHandle_t)> handle;
  // Without a workspace of ours, a product that is captured into a graph would allocate one.
  Buffer<std::byte> workspace;
  std::shared_ptr<FusedProducts> fused;
};

// Bound to `stream`, which keeps it. It is created on first use, because that takes
// milliseconds.
Cublas& cublas_of(const Stream& stream);

// Throws Error if `status` is not CUBLAS_STATUS_SUCCESS.
void check_cublas(cublasStatus_t status, const char* call);

}  // namespace dist
