// Builds on: the products with epilogues of cuBLASLt,
//   https://docs.nvidia.com/cuda/cublas/#cublasltepilogue-t
#include "05_ddp_training/model/fused_gemm.hpp"

#include "05_ddp_training/model/cublas.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>

namespace dist {
namespace {

// Deletes what cuBLASLt has created.
struct Destroy {
  void operator()(cublasLtMatmulDesc_t made) const { cublasLtMatmulDescDestroy(made); }
  void operator()(cublasLtMatrixLayout_t made) const { cublasLtMatrixLayoutDestroy(made); }
  void operator()(cublasLtMatmulPreference_t made) const {
    cublasLtMatmulPreferenceDestroy(made);
  }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

template <class T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute,
         const T& value) {
  check_cublas(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
}

template <class T>
void set(cublasLtMatmulPreference_t wish, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check_cublas(cublasLtMatmulPreferenceSetAttribute(wish, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
}

// cuBLASLt is column-major, so it sees each of our matrices transposed.
Owned<cublasLtMatrixLayout_t> layout_of(const Tensor& matrix, bool is_rounded = false) {
  cublasLtMatrixLayout_t made = nullptr;
  const cudaDataType_t type = is_rounded ? CUDA_R_16BF : CUDA_R_32F;
  check_cublas(cublasLtMatrixLayoutCreate(&made, type, matrix.dim(1), matrix.dim(0),
                                          static_cast<std::int64_t>(matrix.dim(1))),
               "cublasLtMatrixLayoutCreate");
  return Owned<cublasLtMatrixLayout_t>(made);
}

const void* data_of(const Factor& factor, bool is_rounded) {
  return is_rounded ? static_cast<const void*>(factor.rounded) : factor.matrix.data();
}

// The largest power of two that divides the address, up to cudaMalloc's 256.
std::uint32_t alignment_of(const void* address) {
  const auto bits = std::countr_zero(reinterpret_cast<std::uintptr_t>(address));
  return std::uint32_t{1} << std::min(bits, 8);
}

cublasLtEpilogue_t name_of(Epilogue::Kind kind) {
  switch (kind) {
    case Epilogue::Kind::add_bias: return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::Kind::add_bias_relu: return CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
    // Our a is cuBLASLt's B (layout_of).
    case Epilogue::Kind::column_sums: return CUBLASLT_EPILOGUE_BGRADB;
    case Epilogue::Kind::relu_backward: return CUBLASLT_EPILOGUE_DRELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// Any handle of cuBLAS is also one of cuBLASLt.
cublasLtHandle_t handle_of(const Cublas& cublas) {
  return reinterpret_cast<cublasLtHandle_t>(cublas.handle.get());
}

// A product of certain shapes, and the kernel that cuBLASLt's heuristic has chosen for it.
struct Plan {
  Owned<cublasLtMatmulDesc_t> product;
  Owned<cublasLtMatrixLayout_t> a, b, c;
  std::optional<cublasLtMatmulAlgo_t> algorithm;  // nullopt: there is no such kernel
};

Plan make_plan(const Cublas& cublas, Transpose transpose_a, Transpose transpose_b,
               const Factor& a, const Factor& b, const Tensor& c, const Epilogue& epilogue) {
  const auto operation = [](Transpose t) {
    return t == Transpose::no ? CUBLAS_OP_N : CUBLAS_OP_T;
  };
  cublasLtMatmulDesc_t product = nullptr;
  check_cublas(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "cublasLtMatmulDescCreate");
  const bool rounded = are_rounded(a, b);
  Plan plan{Owned<cublasLtMatmulDesc_t>(product),
            layout_of(a.matrix, rounded),
            layout_of(b.matrix, rounded),
            layout_of(c),
            {}};
  // As in gemm, the factors change places.
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, operation(transpose_b));
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, operation(transpose_a));
  set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, name_of(epilogue.kind));
  set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias);
  if (epilogue.mask != nullptr) {
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.mask);
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
        static_cast<std::int64_t>(epilogue.pitch));
  }

  cublasLtMatmulPreference_t wish = nullptr;
  check_cublas(cublasLtMatmulPreferenceCreate(&wish), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreference_t> owned(wish);
  set(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, cublas.workspace.size());
  // Gradients are views of buckets and may begin at any multiple of 4.
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(data_of(b, rounded)));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(data_of(a, rounded)));
  const std::uint32_t of_output = std::min(alignment_of(c.data()), alignment_of(epilogue.bias));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_output);
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_output);

  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_of(cublas), product, plan.b.get(), plan.a.get(),
                                     plan.c.get(), plan.c.get(), wish, 1, &best, &found);
  // Whatever the reason for a refusal is, such as a matrix of one column, linear.cpp can do
  // without the epilogue.
  if (status == CUBLAS_STATUS_SUCCESS && found > 0 && best.state == CUBLAS_STATUS_SUCCESS) {
    plan.algorithm = best.algo;
  }
  return plan;
}

}  // namespace

// The plans so far. Making one takes longer than a product.
struct FusedProducts {
  // The kind, how and in which shapes and precision the factors are read, and the addresses'
  // alignments.
  using Key = std::tuple<Epilogue::Kind, Transpose, Transpose, Shape, Shape, bool,
                         std::array<std::uint32_t, 4>>;
  std::map<Key, Plan> plans;
};

bool fused_gemm(const Stream& stream, Transpose transpose_a, Transpose transpose_b,
                const Factor& a, const Factor& b, const Tensor& c, const Epilogue& epilogue) {
  if (a.matrix.numel() == 0 || b.matrix.numel() == 0 || c.numel() == 0) return false;
  const bool rounded = are_rounded(a, b);
  Cublas& cublas = cublas_of(stream);
  if (!cublas.fused) cublas.fused = std::make_shared<FusedProducts>();
  const FusedProducts::Key key{
      epilogue.kind,
      transpose_a,
      transpose_b,
      a.matrix.shape(),
      b.matrix.shape(),
      rounded,
      {alignment_of(data_of(a, rounded)), alignment_of(data_of(b, rounded)),
       alignment_of(c.data()), alignment_of(epilogue.bias)}};
  auto found = cublas.fused->plans.find(key);
  if (found == cublas.fused->plans.end()) {
    found = cublas.fused->plans
                .emplace(key, make_plan(cublas, transpose_a, transpose_b, a, b, c, epilogue))
                .first;
  }
  Plan& plan = found->second;
  if (!plan.algorithm) return false;
  set(plan.product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias);
  if (epilogue.mask != nullptr) {
    set(plan.product.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.mask);
  }
  const float one = 1;
  const float zero = 0;
  const cublasStatus_t status = cublasLtMatmul(
      handle_of(cublas), plan.product.get(), &one, data_of(b, rounded), plan.b.get(),
      data_of(a, rounded), plan.a.get(), &zero, c.data(), plan.c.get(), c.data(), plan.c.get(),
      &*plan.algorithm, cublas.workspace.data(), cublas.workspace.size(), stream.get());
  // The heuristic may choose a kernel that then refuses the product: never ask it again.
  if (status != CUBLAS_STATUS_SUCCESS) plan.algorithm.reset();
  return status == CUBLAS_STATUS_SUCCESS;
}

}  // namespace dist
