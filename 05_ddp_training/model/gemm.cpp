#include "05_ddp_training/model/gemm.hpp"

#if DIST_WITH_CUDA
#include "05_ddp_training/model/cublas.hpp"
#endif

#if DIST_WITH_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <vector>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "common/check.hpp"

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
// c = a b^T with oneDNN's matmul, which packs a transposed b better than dnnl_sgemm does: a
// layer's forward product takes 10 to 35 % less time (AVX-512). dnnl_sgemm is faster for the
// other three kinds of product. It is also faster for small products, because each matmul call
// needs 5 us of preparation.
bool is_for_matmul(Transpose transpose_a, Transpose transpose_b, float alpha, float beta,
                   const Extents& e) {
  constexpr std::size_t kSmallest = std::size_t{1} << 22;  // multiplications
  return transpose_a == Transpose::no && transpose_b == Transpose::yes && alpha == 1.0F &&
         beta == 0.0F && e.m >= 16 && e.m * e.n * e.k >= kSmallest;
}

void multiply_by_transposed(const Extents& e, const Tensor& a, const Tensor& b,
                            const Tensor& c) {
  const auto size = [](std::size_t extent) { return static_cast<dnnl::memory::dim>(extent); };
  const auto matrix = [&](std::size_t rows, std::size_t columns, bool transposed) {
    using Tag = dnnl::memory::format_tag;
    return dnnl::memory::desc({size(rows), size(columns)}, dnnl::memory::data_type::f32,
                              transposed ? Tag::ba : Tag::ab);
  };
  const auto of_a = matrix(e.m, e.k, false);
  const auto of_b = matrix(e.k, e.n, true);
  const auto of_c = matrix(e.m, e.n, false);
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul product(dnnl::matmul::primitive_desc(engine, of_a, of_b, of_c));
#else
    const dnnl::matmul product(dnnl::matmul::primitive_desc({of_a, of_b, of_c}, engine));
#endif
    dnnl::stream stream(engine);
    product.execute(stream, {{DNNL_ARG_SRC, dnnl::memory(of_a, engine, a.data())},
                             {DNNL_ARG_WEIGHTS, dnnl::memory(of_b, engine, b.data())},
                             {DNNL_ARG_DST, dnnl::memory(of_c, engine, c.data())}});
    stream.wait();
  } catch (const dnnl::error& error) {
    throw Error(fmt::format("oneDNN's matmul failed with status {}: {}",
                            static_cast<int>(error.status), error.what()));
  }
}
#endif

void gemm_cpu([[maybe_unused]] int threads, Transpose transpose_a, Transpose transpose_b,
              float alpha, const Tensor& a, const Tensor& b, float beta, const Tensor& c) {
#if DIST_WITH_ONEDNN
  const Extents e = fit(transpose_a, transpose_b, a, b, c);
  if (e.m == 0 || e.n == 0) return;
  if (e.k == 0) {  // oneDNN rejects an empty sum or leaves c unchanged
    gemm_reference(transpose_a, transpose_b, alpha, a, b, beta, c);
    return;
  }
#if defined(_OPENMP)
  // Set the number of threads on every call: it is a setting of the calling thread, which may
  // be one that main did not create.
  omp_set_num_threads(threads);
#endif
  if (is_for_matmul(transpose_a, transpose_b, alpha, beta, e)) {
    multiply_by_transposed(e, a, b, c);
    return;
  }
  const auto size = [](std::size_t extent) { return static_cast<dnnl_dim_t>(extent); };
  const auto letter = [](Transpose t) { return t == Transpose::no ? 'N' : 'T'; };
  // Row-major, unlike BLAS: the leading dimension is the width of the matrix as it is stored.
  const dnnl_status_t status = dnnl_sgemm(letter(transpose_a), letter(transpose_b), size(e.m),
                                          size(e.n), size(e.k), alpha, a.data(), size(a.dim(1)),
                                          b.data(), size(b.dim(1)), beta, c.data(), size(e.n));
  if (status != dnnl_success) {
    throw Error(fmt::format("dnnl_sgemm failed with status {}", static_cast<int>(status)));
  }
#else
  gemm_reference(transpose_a, transpose_b, alpha, a, b, beta, c);
#endif
}

#if DIST_WITH_CUDA
void gemm_cuda(const Stream& stream, Transpose transpose_a, Transpose transpose_b, float alpha,
               const Tensor& a, const Tensor& b, float beta, const Tensor& c) {
  const Extents e = fit(transpose_a, transpose_b, a, b, c);
  if (e.m == 0 || e.n == 0) return;
  const auto operation = [](Transpose t) {
    return t == Transpose::no ? CUBLAS_OP_N : CUBLAS_OP_T;
  };
  // cuBLAS is column-major, so it sees each of our matrices transposed. Asked for b a, it
  // therefore computes a b in our layout, because (a b)^T = b^T a^T. A leading dimension must
  // not be 0, even if there is nothing to read.
  const auto leading = [](const Tensor& x) { return std::max(1, mpi_count(x.dim(1))); };
  check_cublas(cublasSgemm(cublas_of(stream).handle.get(), operation(transpose_b),
                           operation(transpose_a), mpi_count(e.n), mpi_count(e.m),
                           mpi_count(e.k), &alpha, b.data(), leading(b), a.data(), leading(a),
                           &beta, c.data(), leading(c)),
               "cublasSgemm");
}
#endif

}  // namespace

void gemm(const Stream& stream, Transpose transpose_a, Transpose transpose_b, float alpha,
          const Tensor& a, const Tensor& b, float beta, const Tensor& c) {
#if DIST_WITH_CUDA
  if (!stream.device().is_cpu()) {
    gemm_cuda(stream, transpose_a, transpose_b, alpha, a, b, beta, c);
    return;
  }
#endif
  gemm_cpu(stream.threads(), transpose_a, transpose_b, alpha, a, b, beta, c);
}

void gemm_reference(Transpose transpose_a, Transpose transpose_b, float alpha, const Tensor& a,
                    const Tensor& b, float beta, const Tensor& c) {
  const Extents e = fit(transpose_a, transpose_b, a, b, c);
  const auto at = [](const Tensor& x, Transpose t, std::size_t row, std::size_t column) {
    return t == Transpose::no ? x.data()[row * x.dim(1) + column]
                              : x.data()[column * x.dim(1) + row];
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
      row[j] = alpha * sums[j] + (beta == 0.0F ? 0.0F : beta * row[j]);
    }
  }
}

}  // namespace dist
