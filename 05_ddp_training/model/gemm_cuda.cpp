// Builds on: cuBLAS, and the products with epilogues of cuBLASLt,
//   https://docs.nvidia.com/cuda/cublas/#cublasltepilogue-t
#include "05_ddp_training/model/gemm_cuda.hpp"

#include "05_ddp_training/model/linear.hpp"
#include "common/buffer.hpp"
#include "common/check.hpp"
#include "common/device.hpp"
#include "common/watch.hpp"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>

namespace dist {
namespace {

void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(fmt::format("{}: {}", cublasGetStatusString(status), call));
}

cublasOperation_t operation(Transpose t) {
  return t == Transpose::no ? CUBLAS_OP_N : CUBLAS_OP_T;
}

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

// A product of certain shapes, and the kernel that cuBLASLt's heuristic has chosen for it.
struct Plan {
  Owned<cublasLtMatmulDesc_t> product;
  Owned<cublasLtMatrixLayout_t> a, b, c;
  std::optional<cublasLtMatmulAlgo_t> algorithm;  // nullopt: there is no such kernel
};
// The kind, how and in which shapes and precision the operands are read, and the addresses'
// alignments.
using PlanKey = std::tuple<Epilogue::Kind, Transpose, Transpose, Shape, Shape, bool,
                           std::array<std::uint32_t, 4>>;

// What a stream keeps.
struct Cublas {
  std::unique_ptr<cublasContext, cublasStatus_t (*)(cublasHandle_t)> handle;
  // Without a workspace of ours, a product that is captured into a graph would allocate one.
  Buffer<std::byte> workspace;
  std::map<PlanKey, std::optional<Plan>> plans;  // making one takes longer than a product
  std::set<std::pair<Shape, Shape>> multiplied;  // the shapes of products without an epilogue

  // Any handle of cuBLAS is also one of cuBLASLt.
  cublasLtHandle_t lt() const { return reinterpret_cast<cublasLtHandle_t>(handle.get()); }
};

// It is created on first use, because that takes milliseconds.
Cublas& cublas_of(const Stream& stream) {
  // As much as NVIDIA recommends for Hopper; older GPUs need less.
  constexpr std::size_t kWorkspace = std::size_t{32} << 20;
  std::shared_ptr<void>& kept = stream.companion();
  if (!kept) {
    const StartScope start;
    const CurrentDevice current(stream.device());
    cublasHandle_t handle = nullptr;
    check_cublas(cublasCreate(&handle), "cublasCreate");
    const auto made = std::make_shared<Cublas>(Cublas{
        {handle, cublasDestroy}, Buffer<std::byte>(kWorkspace, stream.device()), {}, {}});
    check_cublas(cublasSetStream(handle, stream.get()), "cublasSetStream");
    check_cublas(cublasSetWorkspace(handle, made->workspace.data(), kWorkspace),
                 "cublasSetWorkspace");
    kept = made;
  }
  return *static_cast<Cublas*>(kept.get());
}

Plan make_plan(const Cublas& cublas, Transpose transpose_a, Transpose transpose_b,
               const Operand& a, const Operand& b, const Tensor& c, const Epilogue& epilogue) {
  cublasLtMatmulDesc_t product = nullptr;
  check_cublas(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "cublasLtMatmulDescCreate");
  const bool rounded = are_rounded(a, b);
  Plan plan{Owned<cublasLtMatmulDesc_t>(product),
            layout_of(a.matrix, rounded),
            layout_of(b.matrix, rounded),
            layout_of(c),
            {}};
  // As in gemm, the operands change places.
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, operation(transpose_b));
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, operation(transpose_a));
  set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, name_of(epilogue.kind));
  set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias);
  if (epilogue.mask != nullptr) {
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.mask->bits.data());
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
        static_cast<std::int64_t>(epilogue.mask->pitch));
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
      cublasLtMatmulAlgoGetHeuristic(cublas.lt(), product, plan.b.get(), plan.a.get(),
                                     plan.c.get(), plan.c.get(), wish, 1, &best, &found);
  // Whatever the reason for a refusal is, such as a matrix of one column, linear.cpp can do
  // without the epilogue.
  if (status == CUBLAS_STATUS_SUCCESS && found > 0 && best.state == CUBLAS_STATUS_SUCCESS) {
    plan.algorithm = best.algo;
  }
  return plan;
}

// Queues the product with its epilogue.
cublasStatus_t run(const Cublas& cublas, Plan& plan, const Operand& a, const Operand& b,
                   const Tensor& c, const Epilogue& epilogue, const Stream& stream) {
  set(plan.product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias);
  if (epilogue.mask != nullptr) {
    set(plan.product.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
        epilogue.mask->bits.data());
  }
  const bool rounded = are_rounded(a, b);
  const float one = 1, zero = 0;
  return cublasLtMatmul(cublas.lt(), plan.product.get(), &one, data_of(b, rounded),
                        plan.b.get(), data_of(a, rounded), plan.a.get(), &zero, c.data(),
                        plan.c.get(), c.data(), plan.c.get(), &*plan.algorithm,
                        cublas.workspace.data(), cublas.workspace.size(), stream.get());
}

}  // namespace

// The epilogue with ReLU is documented as max(x, 0), which promises nothing about NaN; a user
// saw it become 0 (https://forums.developer.nvidia.com/t/329783). A loss may then hide NaN, but
// training does not: 0 times NaN is NaN, so a gradient still shows what is wrong with an input
// or with another gradient, and the update tests each new parameter (UpdateBlock).
bool fused_gemm(const Stream& stream, Transpose transpose_a, Transpose transpose_b,
                const Operand& a, const Operand& b, const Tensor& c, const Epilogue& epilogue) {
  // To compare a step with epilogues to one without, on the same GPU.
  const bool wanted = std::getenv("DIST_NO_EPILOGUES") == nullptr;
  if (!wanted || stream.device().is_cpu()) return false;
  if (a.matrix.numel() == 0 || b.matrix.numel() == 0 || c.numel() == 0) return false;
  const bool rounded = are_rounded(a, b);
  Cublas& cublas = cublas_of(stream);
  const PlanKey key{epilogue.kind,
                    transpose_a,
                    transpose_b,
                    a.matrix.shape(),
                    b.matrix.shape(),
                    rounded,
                    {alignment_of(data_of(a, rounded)), alignment_of(data_of(b, rounded)),
                     alignment_of(c.data()), alignment_of(epilogue.bias)}};
  std::optional<Plan>& made = cublas.plans[key];
  std::optional<StartScope> loads;  // a kernel, perhaps from a remote disk
  if (!made) {
    loads.emplace();
    made = make_plan(cublas, transpose_a, transpose_b, a, b, c, epilogue);
  }
  Plan& plan = *made;
  if (!plan.algorithm) return false;
  const cublasStatus_t status = run(cublas, plan, a, b, c, epilogue, stream);
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  // The heuristic may choose a kernel that then refuses the product: never ask it again. If its
  // launch has failed, CUDA would report that for the next launch.
  plan.algorithm.reset();
  static_cast<void>(cudaGetLastError());
  return false;
}

void gemm_cuda(const Stream& stream, Transpose transpose_a, Transpose transpose_b,
               const Operand& a, const Operand& b, float beta, const Tensor& c) {
  // cuBLAS is column-major, so it sees each of our matrices transposed. Asked for b a, it
  // therefore computes a b in our layout, because (a b)^T = b^T a^T.
  const std::size_t dims = c.shape().size();  // 3: a batch
  const auto rows = [&](const Tensor& x) { return x.dim(dims - 2); };
  const auto columns = [&](const Tensor& x) { return x.dim(dims - 1); };
  // A leading dimension must not be 0, even if there is nothing to read.
  const auto leading = [&](const Tensor& x) { return std::max(1, mpi_count(columns(x))); };
  const auto from_one_to_the_next = [&](const Tensor& x) {
    return static_cast<long long>(rows(x) * columns(x));
  };
  const std::size_t k = transpose_a == Transpose::no ? columns(a.matrix) : rows(a.matrix);
  Cublas& cublas = cublas_of(stream);
  std::optional<StartScope> loads;  // as above
  if (cublas.multiplied.insert({a.matrix.shape(), b.matrix.shape()}).second) loads.emplace();
  const bool rounded = are_rounded(a, b);
  const cudaDataType_t type = rounded ? CUDA_R_16BF : CUDA_R_32F;
  const float one = 1;
  if (dims == 3) {
    check_cublas(
        cublasGemmStridedBatchedEx(
            cublas.handle.get(), operation(transpose_b), operation(transpose_a),
            mpi_count(columns(c)), mpi_count(rows(c)), mpi_count(k), &one, data_of(b, rounded),
            type, leading(b.matrix), from_one_to_the_next(b.matrix), data_of(a, rounded), type,
            leading(a.matrix), from_one_to_the_next(a.matrix), &beta, c.data(), CUDA_R_32F,
            leading(c), from_one_to_the_next(c), mpi_count(c.dim(0)), CUBLAS_COMPUTE_32F,
            CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
    return;
  }
  check_cublas(cublasGemmEx(cublas.handle.get(), operation(transpose_b), operation(transpose_a),
                            mpi_count(columns(c)), mpi_count(rows(c)), mpi_count(k), &one,
                            data_of(b, rounded), type, leading(b.matrix), data_of(a, rounded),
                            type, leading(a.matrix), &beta, c.data(), CUDA_R_32F, leading(c),
                            CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
               "cublasGemmEx");
}

}  // namespace dist
