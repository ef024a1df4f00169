#include "05_ddp_training/model/gemm.hpp"

#include "05_ddp_training/model/gemm_cpu.hpp"
#include "05_ddp_training/model/gemm_cuda.hpp"
#include "common/check.hpp"
#include "common/check_cuda.hpp"

#include <fmt/format.h>

#include <vector>

namespace dist {
namespace {

struct Extents {
  std::size_t count, m, n, k;
};

// Checks that `count` times op(a) (m, k) times op(b) (k, n) fits c (m, n). Matrices have two
// dimensions, and batches of them one more.
Extents fit(const char* who, std::size_t dims, Transpose transpose_a, Transpose transpose_b,
            const Tensor& a, const Tensor& b, const Tensor& c) {
  const bool is_batch = dims == 3;
  for (const Tensor& each : {a, b, c}) {
    if (each.shape().size() != dims) {
      throw Error(fmt::format("{}: {} is not a {}", who, to_string(each.shape()),
                              is_batch ? "batch of matrices" : "matrix"));
    }
  }
  const auto rows = [&](const Tensor& x, Transpose t) {
    return x.dim(dims - (t == Transpose::no ? 2 : 1));
  };
  const auto columns = [&](const Tensor& x, Transpose t) {
    return x.dim(dims - (t == Transpose::no ? 1 : 2));
  };
  const Extents e{is_batch ? a.dim(0) : 1, rows(a, transpose_a), columns(b, transpose_b),
                  columns(a, transpose_a)};
  const bool counts_fit = !is_batch || (b.dim(0) == e.count && c.dim(0) == e.count);
  if (!counts_fit || rows(b, transpose_b) != e.k || rows(c, Transpose::no) != e.m ||
      columns(c, Transpose::no) != e.n) {
    throw Error(fmt::format("{}: {}{} times {}{} does not fit {}", who, to_string(a.shape()),
                            transpose_a == Transpose::yes ? "^T" : "", to_string(b.shape()),
                            transpose_b == Transpose::yes ? "^T" : "", to_string(c.shape())));
  }
  return e;
}

// What it computes, if it is on the CPU.
Product product_of(const Extents& e, Transpose transpose_a, Transpose transpose_b,
                   const Operand& a, const Operand& b, float beta, const Tensor& c) {
  Product product{.transpose_a = transpose_a,
                  .transpose_b = transpose_b,
                  .m = e.m,
                  .n = e.n,
                  .k = e.k,
                  .a = a.matrix.data(),
                  .lda = transpose_a == Transpose::no ? e.k : e.m,
                  .b = b.matrix.data(),
                  .ldb = transpose_b == Transpose::no ? e.n : e.k,
                  .beta = beta,
                  .c = c.data(),
                  .ldc = e.n};
  if (are_rounded(a, b)) {
    product.rounded_a = a.rounded;
    product.rounded_b = b.rounded;
  }
  return product;
}

// Adds one row of op(b) at a time to a row of c: the inner loop then reads memory in order.
void multiply_plainly(const Product& p, int) {
  const auto at = [&](const float* x, const Bf16* rounded, Transpose t, std::size_t leading,
                      std::size_t row, std::size_t column) {
    const std::size_t i = t == Transpose::no ? row * leading + column : column * leading + row;
    return p.is_rounded() ? to_float(rounded[i]) : x[i];
  };
  std::vector<float> sums(p.n);
  for (std::size_t i = 0; i < p.m; ++i) {
    sums.assign(p.n, 0.0F);
    for (std::size_t k = 0; k < p.k; ++k) {
      const float factor = at(p.a, p.rounded_a, p.transpose_a, p.lda, i, k);
      for (std::size_t j = 0; j < p.n; ++j) {
        sums[j] += factor * at(p.b, p.rounded_b, p.transpose_b, p.ldb, k, j);
      }
    }
    float* row = p.c + i * p.ldc;
    for (std::size_t j = 0; j < p.n; ++j) {
      row[j] = sums[j] + (p.beta == 0.0F ? 0.0F : p.beta * row[j]);
    }
  }
}

}  // namespace

static void multiply_any(const char* who, std::size_t dims, const Stream& stream,
                         Transpose transpose_a, Transpose transpose_b, const Operand& a,
                         const Operand& b, float beta, const Tensor& c) {
  const Extents e = fit(who, dims, transpose_a, transpose_b, a.matrix, b.matrix, c);
  if (c.numel() == 0) return;
#if DIST_WITH_CUDA
  if (!stream.device().is_cpu()) {
    return gemm_cuda(stream, transpose_a, transpose_b, a, b, beta, c);
  }
#endif
  multiply(stream, product_of(e, transpose_a, transpose_b, a, b, beta, c), e.count);
}

void gemm(const Stream& stream, Transpose transpose_a, Transpose transpose_b, const Operand& a,
          const Operand& b, float beta, const Tensor& c) {
  multiply_any("gemm", 2, stream, transpose_a, transpose_b, a, b, beta, c);
}

void batched_gemm(const Stream& stream, Transpose transpose_a, Transpose transpose_b,
                  const Operand& a, const Operand& b, float beta, const Tensor& c) {
  multiply_any("batched_gemm", 3, stream, transpose_a, transpose_b, a, b, beta, c);
}

void gemm_reference(Transpose transpose_a, Transpose transpose_b, const Operand& a,
                    const Operand& b, float beta, const Tensor& c) {
  const Extents e = fit("gemm", 2, transpose_a, transpose_b, a.matrix, b.matrix, c);
  multiply_plainly(product_of(e, transpose_a, transpose_b, a, b, beta, c), /*threads=*/1);
}

const CpuLibrary kPlain{[] { return std::string(); }, [] { return std::string("plain loop"); },
                        multiply_plainly, /*has_threads=*/false};

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
  if (onednn_has_bf16()) return "";
  return kOneDnn.why_not().empty()
             ? "bf16 needs a CPU with AMX or AVX-512 BF16, and this one has neither"
             : "bf16 needs oneDNN, and this build has none";
}

}  // namespace dist
