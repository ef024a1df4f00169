// Emulates cuBLAS: the CPU's library computes the matrix product when the stream reaches it.
#include "05_ddp_training/model/gemm.hpp"
#include "tests/emulation/product.hpp"
#include "tests/emulation/runtime.hpp"

#include <cublas_v2.h>

#include <cstddef>

struct cublasContext {
  cudaStream_t stream = nullptr;
  bool has_workspace = false;
};

static std::size_t as_size(int number) {
  return static_cast<std::size_t>(number);
}

// A copy of a factor with its rows, or its columns, in the opposite order.
static dist::Tensor backwards(const emulation::Product& product, const void* factor, int rows,
                              int columns, bool reverse_rows) {
  dist::Tensor copy({as_size(rows), as_size(columns)}, dist::Device{});
  float* to = copy.data();
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      const int row = reverse_rows ? rows - 1 - r : r;
      const int column = reverse_rows ? c : columns - 1 - c;
      *to++ = product.read(factor, as_size(row) * as_size(columns) + as_size(column));
    }
  }
  return copy;
}

void emulation::Product::compute() const {
  using namespace dist;
  // Read by rows, a column-major matrix is its transpose, so this is c^T = op(b)^T op(a)^T.
  const Tensor left = backwards(*this, b, flip_b ? k : n, flip_b ? n : k, flip_b);
  const Tensor right = backwards(*this, a, flip_a ? m : k, flip_a ? k : m, !flip_a);
  const Tensor product(nullptr, c, {as_size(n), as_size(m)}, Device{});
  const auto t = [](bool flip) { return flip ? Transpose::yes : Transpose::no; };
  gemm(Stream(Device{}), t(flip_b), t(flip_a), left, right, beta, product);
}

const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "an invalid value";
}
cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  emulation::start_slowly();
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  handle->has_workspace = false;  // from now on, cuBLAS allocates one of its own
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t) {
  emulation::check_memory(handle->stream, workspace, "cublasSetWorkspace");
  handle->has_workspace = true;
  return CUBLAS_STATUS_SUCCESS;
}

// `count` products whose matrices lie `stride` elements after each other.
static cublasStatus_t multiply(const char* name, cublasHandle_t handle,
                               cublasOperation_t transpose_a, cublasOperation_t transpose_b,
                               int m, int n, int k, const void* alpha, const void* a,
                               cudaDataType_t type_a, int lda, long long stride_a,
                               const void* b, cudaDataType_t type_b, int ldb,
                               long long stride_b, const void* beta, void* c,
                               cudaDataType_t type_c, int ldc, long long stride_c, int count,
                               cublasComputeType_t compute) {
  const bool flip_a = transpose_a == CUBLAS_OP_T;
  const bool flip_b = transpose_b == CUBLAS_OP_T;
  if (lda != (flip_a ? k : m) || ldb != (flip_b ? n : k) || ldc != m) {
    return CUBLAS_STATUS_INVALID_VALUE;  // only dense matrices are emulated
  }
  if (type_a == CUDA_R_16BF && !emulation::has_bf16()) return CUBLAS_STATUS_ARCH_MISMATCH;
  if (type_a != type_b || type_c != CUDA_R_32F || compute != CUBLAS_COMPUTE_32F ||
      *static_cast<const float*>(alpha) != 1) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const void* const matrices[] = {a, b, c};
  for (const void* matrix : matrices) emulation::check_memory(handle->stream, matrix, name);
  if (!handle->has_workspace && handle->stream->point.capture) {
    ++emulation::counters.allocations;
  }
  const bool rounded = type_a == CUDA_R_16BF;
  const auto later = [rounded](const void* from, long long elements) {
    return static_cast<const std::byte*>(from) + elements * (rounded ? 2 : 4);
  };
  for (int i = 0; i < count; ++i) {
    const emulation::Product product{rounded,
                                     flip_a,
                                     flip_b,
                                     m,
                                     n,
                                     k,
                                     later(a, i * stride_a),
                                     later(b, i * stride_b),
                                     *static_cast<const float*>(beta),
                                     static_cast<float*>(c) + i * stride_c};
    emulation::enqueue(handle->stream, [product, device = handle->stream->device] {
      if (emulation::survives(device)) product.compute();
    });
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                            cublasOperation_t transpose_b, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType_t type_a, int lda,
                            const void* b, cudaDataType_t type_b, int ldb, const void* beta,
                            void* c, cudaDataType_t type_c, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
  return multiply("cublasGemmEx", handle, transpose_a, transpose_b, m, n, k, alpha, a, type_a,
                  lda, 0, b, type_b, ldb, 0, beta, c, type_c, ldc, 0, /*count=*/1, compute);
}

cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b, int m,
    int n, int k, const void* alpha, const void* a, cudaDataType_t type_a, int lda,
    long long stride_a, const void* b, cudaDataType_t type_b, int ldb, long long stride_b,
    const void* beta, void* c, cudaDataType_t type_c, int ldc, long long stride_c, int count,
    cublasComputeType_t compute, cublasGemmAlgo_t) {
  return multiply("cublasGemmStridedBatchedEx", handle, transpose_a, transpose_b, m, n, k,
                  alpha, a, type_a, lda, stride_a, b, type_b, ldb, stride_b, beta, c, type_c,
                  ldc, stride_c, count, compute);
}
