// Emulates cuBLAS: the CPU's library computes the matrix product when the stream reaches it.
#include "05_ddp_training/model/gemm.hpp"

#include <cublas_v2.h>

#include <memory>

struct cublasContext {
  cudaStream_t stream = nullptr;
};

const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "an invalid value";
}
cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transpose_a,
                           cublasOperation_t transpose_b, int m, int n, int k,
                           const float* alpha, const float* a, int lda, const float* b, int ldb,
                           const float* beta, float* c, int ldc) {
  const bool flip_a = transpose_a == CUBLAS_OP_T;
  const bool flip_b = transpose_b == CUBLAS_OP_T;
  if (lda != (flip_a ? k : m) || ldb != (flip_b ? n : k) || ldc != m) {
    return CUBLAS_STATUS_INVALID_VALUE;  // only dense matrices are emulated
  }
  // A column-major matrix is the row-major transpose, so this is c^T = op(b)^T op(a)^T.
  emulation::enqueue(handle->stream, [=, alpha = *alpha, beta = *beta] {
    using namespace dist;
    const auto matrix = [](const float* data, int rows, int columns) {
      return Tensor(nullptr, const_cast<float*>(data),
                    {static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)},
                    Device{});
    };
    const auto t = [](bool flip) { return flip ? Transpose::yes : Transpose::no; };
    const Stream cpu(Device{});
    gemm(cpu, t(flip_b), t(flip_a), alpha, flip_b ? matrix(b, k, n) : matrix(b, n, k),
         flip_a ? matrix(a, m, k) : matrix(a, k, m), beta, matrix(c, n, m));
  });
  return CUBLAS_STATUS_SUCCESS;
}
