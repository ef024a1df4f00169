#include "05_ddp_training/model/gemm.hpp"

#include "05_ddp_training/model/gemm_cuda.hpp"

#if DIST_WITH_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

#include <fmt/format.h>

#include <vector>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "common/check.hpp"
#include "common/check_cuda.hpp"

namespace dist {
namespace {

struct Extents {
  std::size_t m, n, k;
};

// Checks that op(a) (m, k) times op(b) (k, n) fits c (m, n).
Extents fit(Transpose transpose_a, Transpose transpose_b, const Tensor& a, const Tensor& b,
            const Tensor& c) {
  for (const Tensor& matrix : {a, b, c}) {
    if (matrix.shape().size() != 2) {
      throw Error(fmt::format("gemm: {} is not a matrix", to_string(matrix.shape())));
    }
  }
  const auto row = [](Transpose t) -> std::size_t { return t == Transpose::no ? 0 : 1; };
  const Extents e{a.dim(row(transpose_a)), b.dim(1 - row(transpose_b)),
                  a.dim(1 - row(transpose_a))};
  if (b.dim(row(transpose_b)) != e.k || c.dim(0) != e.m || c.dim(1) != e.n) {
    throw Error(fmt::format("gemm: {}{} times {}{} does not fit {}", to_string(a.shape()),
                            transpose_a == Transpose::yes ? "^T" : "", to_string(b.shape()),
                            transpose_b == Transpose::yes ? "^T" : "", to_string(c.shape())));
  }
  return e;
}

#if DIST_WITH_ONEDNN
// oneDNN's matmul packs a transposed b better than dnnl_sgemm does: a layer's forward product
// takes 10 to 35 % less time (AVX-512). dnnl_sgemm is faster for the other three kinds of
// product. It is also faster for small products, because each matmul call needs 5 us of
// preparation.
bool is_for_matmul(Transpose transpose_a, Transpose transpose_b, float beta, const Extents& e) {
  constexpr std::size_t kSmallest = std::size_t{1} << 22;  // multiplications
  return transpose_a == Transpose::no && transpose_b == Transpose::yes && beta == 0.0F &&
         e.m >= 16 && e.m * e.n * e.k >= kSmallest;
}

void matmul(const Extents& e, Transpose transpose_a, Transpose transpose_b, const Operand& a,
            const Operand& b, float beta, const Tensor& c) {
  using Type = dnnl::memory::data_type;
  const bool rounded = are_rounded(a, b);
  const Type type = rounded ? Type::bf16 : Type::f32;
  const auto matrix = [](std::size_t rows, std::size_t columns, Type kind,
                         Transpose transpose) {
    using Tag = dnnl::memory::format_tag;
    const auto size = [](std::size_t extent) { return static_cast<dnnl::memory::dim>(extent); };
    return dnnl::memory::desc({size(rows), size(columns)}, kind,
                              transpose == Transpose::yes ? Tag::ba : Tag::ab);
  };
  const auto of_a = matrix(e.m, e.k, type, transpose_a);
  const auto of_b = matrix(e.k, e.n, type, transpose_b);
  const auto of_c = matrix(e.m, e.n, Type::f32, Transpose::no);
  dnnl::primitive_attr attributes;
  if (beta != 0.0F) {
    dnnl::post_ops after;
    after.append_sum(beta);
    attributes.set_post_ops(after);
  }
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul product(
        dnnl::matmul::primitive_desc(engine, of_a, of_b, of_c, attributes));
#else
    const dnnl::matmul product(
        dnnl::matmul::primitive_desc({of_a, of_b, of_c}, attributes, engine));
#endif
    dnnl::stream stream(engine);
    const auto at = [&](const dnnl::memory::desc& of, const void* data) {
      return dnnl::memory(of, engine, const_cast<void*>(data));
    };
    product.execute(stream, {{DNNL_ARG_SRC, at(of_a, data_of(a, rounded))},
                             {DNNL_ARG_WEIGHTS, at(of_b, data_of(b, rounded))},
                             {DNNL_ARG_DST, at(of_c, c.data())}});
    stream.wait();
  } catch (const dnnl::error& error) {
    throw Error(fmt::format("oneDNN's matmul failed with status {}: {}",
                            static_cast<int>(error.status), error.what()));
  }
}

// Whether oneDNN uses instructions of this CPU that multiply bfloat16.
bool has_bf16() {
  constexpr auto kWanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kWanted) == kWanted;
}
#endif

void gemm_cpu([[maybe_unused]] const Extents& e, [[maybe_unused]] int threads,
              Transpose transpose_a, Transpose transpose_b, const Operand& a, const Operand& b,
              float beta, const Tensor& c) {
#if DIST_WITH_ONEDNN
  // oneDNN rejects an empty sum or leaves c unchanged.
  if (e.k == 0 || (are_rounded(a, b) && !has_bf16())) {
    return gemm_reference(transpose_a, transpose_b, a, b, beta, c);
  }
#if defined(_OPENMP)
  // Set the number of threads on every call: it is a setting of the calling thread, which may
  // be one that main did not create.
  omp_set_num_threads(threads);
#endif
  if (are_rounded(a, b) || is_for_matmul(transpose_a, transpose_b, beta, e)) {
    return matmul(e, transpose_a, transpose_b, a, b, beta, c);
  }
  const auto size = [](std::size_t extent) { return static_cast<dnnl_dim_t>(extent); };
  const auto letter = [](Transpose t) { return t == Transpose::no ? 'N' : 'T'; };
  // Row-major, unlike BLAS: the leading dimension is the width of the matrix as it is stored.
  const dnnl_status_t status =
      dnnl_sgemm(letter(transpose_a), letter(transpose_b), size(e.m), size(e.n), size(e.k),
                 /*alpha=*/1.0F, a.matrix.data(), size(a.matrix.dim(1)), b.matrix.data(),
                 size(b.matrix.dim(1)), beta, c.data(), size(e.n));
  if (status != dnnl_success) {
    throw Error(fmt::format("dnnl_sgemm failed with status {}", static_cast<int>(status)));
  }
#else
  gemm_reference(transpose_a, transpose_b, a, b, beta, c);
#endif
}

}  // namespace

void gemm(const Stream& stream, Transpose transpose_a, Transpose transpose_b, const Operand& a,
          const Operand& b, float beta, const Tensor& c) {
  const Extents e = fit(transpose_a, transpose_b, a.matrix, b.matrix, c);
  if (e.m == 0 || e.n == 0) return;
#if DIST_WITH_CUDA
  if (!stream.device().is_cpu()) {
    return gemm_cuda(stream, transpose_a, transpose_b, a, b, beta, c);
  }
#endif
  gemm_cpu(e, stream.threads(), transpose_a, transpose_b, a, b, beta, c);
}

void gemm_reference(Transpose transpose_a, Transpose transpose_b, const Operand& a,
                    const Operand& b, float beta, const Tensor& c) {
  const Extents e = fit(transpose_a, transpose_b, a.matrix, b.matrix, c);
  const auto at = [&](const Operand& x, Transpose t, std::size_t row, std::size_t column) {
    const std::size_t width = x.matrix.dim(1);
    const std::size_t i = t == Transpose::no ? row * width + column : column * width + row;
    return are_rounded(a, b) ? to_float(x.rounded[i]) : x.matrix.data()[i];
  };
  std::vector<float> sums(e.n);
  for (std::size_t i = 0; i < e.m; ++i) {
    // Add one row of op(b) at a time to row i of c: the inner loop then reads memory in order.
    sums.assign(e.n, 0.0F);
    for (std::size_t k = 0; k < e.k; ++k) {
      const float factor = at(a, transpose_a, i, k);
      for (std::size_t j = 0; j < e.n; ++j) sums[j] += factor * at(b, transpose_b, k, j);
    }
    float* row = c.data() + i * e.n;
    for (std::size_t j = 0; j < e.n; ++j) {
      row[j] = sums[j] + (beta == 0.0F ? 0.0F : beta * row[j]);
    }
  }
}

std::string why_no_bf16(Device device) {
#if DIST_WITH_CUDA
  if (!device.is_cpu()) {
    constexpr int kWanted = 8;  // Ampere
    int major = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index));
    if (major >= kWanted) return "";
    return fmt::format("bf16 needs a GPU of compute capability {}.0 or newer, and {} has {}.x",
                       kWanted, to_string(device), major);
  }
#endif
  static_cast<void>(device);
#if DIST_WITH_ONEDNN
  if (has_bf16()) return "";
  return "bf16 needs a CPU with AMX or AVX-512 BF16, and this one has neither";
#else
  return "bf16 needs oneDNN, and this build has none";
#endif
}

}  // namespace dist
