// Emulates cuBLASLt's products with epilogues. As the real library, it accepts only addresses
// that are aligned as its caller has promised, and its heuristic may call a product invalid
// that has one row or one column.
//
//   EMULATED_EPILOGUES  0: none; otherwise the bits that an epilogue's number may have (1: any)
//   EMULATED_FLUSH      1: products of one row or column are valid, too, and the sums for a
//   bias
//                       make 0 of subnormal numbers
//   EMULATED_RELU       of an epilogue: 1 makes 0 of NaN; 2 keeps NaN, but its bit of the mask
//   is
//                       0, so no gradient passes there; 3: the bit of 0 is 1
//   EMULATED_REFUSAL    "R:N" refuses the N-th product of rank R, whatever the heuristic said
#include "tests/emulation/product.hpp"
#include "tests/emulation/runtime.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>

struct cublasLtMatmulDescOpaque_t {
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  float* bias = nullptr;
  std::uint32_t* mask = nullptr;
  std::int64_t pitch = 0;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::uint64_t rows, columns;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::array<std::uint32_t, 4> alignments{256, 256, 256, 256};
};

namespace {

using Matrix = cublasLtMatrixLayout_t;

emulation::Product product_of(const cublasLtMatmulDescOpaque_t& product, Matrix a, Matrix b) {
  const bool flip_a = product.transpose_a == CUBLAS_OP_T;
  const bool flip_b = product.transpose_b == CUBLAS_OP_T;
  return {.rounded = a->type == CUDA_R_16BF,
          .flip_a = flip_a,
          .flip_b = flip_b,
          .m = static_cast<int>(flip_a ? a->columns : a->rows),
          .n = static_cast<int>(flip_b ? b->rows : b->columns),
          .k = static_cast<int>(flip_a ? a->rows : a->columns),
          .a = nullptr,
          .b = nullptr,
          .beta = 0,
          .c = nullptr};
}

bool fits(const cublasLtMatmulDescOpaque_t& product, Matrix a, Matrix b, Matrix d) {
  const emulation::Product p = product_of(product, a, b);
  const bool masked = product.mask == nullptr ||
                      (product.pitch % 128 == 0 && product.pitch >= static_cast<int>(d->rows));
  const auto inner = static_cast<int>(p.flip_b ? b->columns : b->rows);
  return masked && a->type == b->type && d->type == CUDA_R_32F && inner == p.k &&
         static_cast<int>(d->rows) == p.m && static_cast<int>(d->columns) == p.n;
}

// Runs on the GPU, after the product.
void finish(const cublasLtMatmulDescOpaque_t& product, const emulation::Product& p) {
  const auto bits = [&](int column, int row) {
    const std::int64_t bit = column * product.pitch + row;
    return std::pair(product.mask + bit / 32, std::uint32_t{1} << bit % 32);
  };
  for (int column = 0; column < p.n; ++column) {
    float* const d = p.c + static_cast<std::ptrdiff_t>(column) * p.m;
    if (product.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
      float sum = 0;
      for (int i = p.k; i-- > 0;) {
        const int at = p.flip_b ? i * p.n + column : column * p.k + i;
        sum += p.read(p.b, static_cast<std::size_t>(at));
      }
      static const bool flushes = emulation::environment_number("EMULATED_FLUSH", 0) != 0;
      product.bias[column] = flushes && !std::isnormal(sum) && std::isfinite(sum) ? 0 : sum;
      continue;
    }
    for (int row = 0; row < p.m; ++row) {
      if ((product.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) d[row] += product.bias[row];
      if (product.mask == nullptr) continue;
      const auto [word, bit] = bits(column, row);
      if (product.epilogue == CUBLASLT_EPILOGUE_DRELU) {
        if ((*word & bit) == 0) d[row] = 0;
      } else {
        static const int kind = emulation::environment_number("EMULATED_RELU", 0);
        const bool keeps_nan = kind != 1, masks_nan = kind == 1 || kind == 2;
        const bool passes = keeps_nan ? !(d[row] <= 0) : d[row] > 0;
        const bool is_open = masks_nan ? d[row] > 0 : kind == 3 ? !(d[row] < 0) : passes;
        *word = is_open ? *word | bit : *word & ~bit;
        if (!passes) d[row] = 0;
      }
    }
  }
}

template <class T>
cublasStatus_t read(T& into, const void* value, std::size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&into, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t,
                                        cudaDataType_t) {
  *product = new cublasLtMatmulDescOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete product;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return read(product->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return read(product->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return read(product->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return read(product->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return read(product->mask, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return read(product->pitch, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(Matrix* matrix, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  if (static_cast<std::uint64_t>(leading) != rows) return CUBLAS_STATUS_INVALID_VALUE;
  *matrix = new cublasLtMatrixLayoutOpaque_t{type, rows, columns};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(Matrix matrix) {
  delete matrix;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* wish) {
  *wish = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish) {
  delete wish;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t wish, cublasLtMatmulPreferenceAttributes_t attribute,
    const void* value, std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    return read(wish->workspace, value, bytes);
  }
  const int operand = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  return read(wish->alignments.at(static_cast<std::size_t>(operand)), value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                              Matrix a, Matrix b, Matrix, Matrix d,
                                              cublasLtMatmulPreference_t wish, int,
                                              cublasLtMatmulHeuristicResult_t* best,
                                              int* found) {
  *found = 0;
  const bool is_thin = d->rows == 1 || d->columns == 1;
  if (!fits(*product, a, b, d) ||
      (is_thin && emulation::environment_number("EMULATED_FLUSH", 0) == 0)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (a->type == CUDA_R_16BF && !emulation::has_bf16()) return CUBLAS_STATUS_ARCH_MISMATCH;
  const int known = emulation::environment_number("EMULATED_EPILOGUES", 1);
  if (known != 1 && (product->epilogue & ~known) != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  std::copy(wish->alignments.begin(), wish->alignments.end(), best->algo.data);
  best->algo.data[4] = wish->workspace;
  best->state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void*,
                              const void* a, Matrix layout_a, const void* b, Matrix layout_b,
                              const void*, const void* c, Matrix, void* d, Matrix layout_d,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t bytes, cudaStream_t stream) {
  const std::array<const void*, 4> operands{a, b, c, d};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    emulation::check_memory(stream, operands[i], "cublasLtMatmul");
    if (reinterpret_cast<std::uintptr_t>(operands[i]) % algorithm->data[i] != 0) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  const std::array<const void*, 3> others{product->bias, product->mask, workspace};
  for (const void* memory : others) {
    if (memory != nullptr) emulation::check_memory(stream, memory, "cublasLtMatmul");
  }
  if (!fits(*product, layout_a, layout_b, layout_d) || bytes < algorithm->data[4]) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  static const bool loaded = (emulation::start_slowly(), true);  // the first kernel
  static_cast<void>(loaded);
  static std::atomic<int> calls = 0;
  if (emulation::is_chosen("EMULATED_REFUSAL", calls)) {
    emulation::result(cudaErrorInvalidValue);  // of the launch
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  emulation::Product p = product_of(*product, layout_a, layout_b);
  p.a = a;
  p.b = b;
  p.c = static_cast<float*>(d);
  emulation::enqueue(stream, [p, product = *product, device = stream->device] {
    if (!emulation::survives(device)) return;
    p.compute();
    finish(product, p);
  });
  return CUBLAS_STATUS_SUCCESS;
}
