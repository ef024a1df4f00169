// Look at: is_for_matmul. oneDNN has two functions for a product, and neither is always faster.
#include "05_ddp_training/model/gemm_cpu.hpp"
#include "common/check.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#if defined(_OPENMP)
#include <omp.h>
#endif

#if DIST_WITH_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace dist {
namespace {

#if DIST_WITH_ONEDNN

std::string why_no_onednn() {
  return "";
}

// From the newest instructions to the oldest.
std::string_view kernels() {
  using dnnl::cpu_isa;
  constexpr std::pair<cpu_isa, std::string_view> kNames[] = {
      {cpu_isa::avx512_core_amx, "AMX"},
      {cpu_isa::avx512_core_bf16, "AVX-512 BF16"},
      {cpu_isa::avx512_core_vnni, "AVX-512 VNNI"},
      {cpu_isa::avx512_core, "AVX-512"},
      {cpu_isa::avx2, "AVX2"},
      {cpu_isa::avx, "AVX"},
      {cpu_isa::sse41, "SSE4.1"}};
  const auto used = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  for (const auto& [isa, name] : kNames) {
    const auto bits = static_cast<unsigned>(isa);
    if ((used & bits) == bits) return name;
  }
  return "no vector instructions";
}

std::string onednn_description() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{} ({})", version->major, version->minor, version->patch,
                     kernels());
}

// oneDNN's matmul packs a transposed b better than dnnl_sgemm does: a layer's forward product
// takes 10 to 35 % less time (AVX-512). dnnl_sgemm is faster for the other three kinds of
// product. It is also faster for small products, because each matmul call needs 5 us of
// preparation.
bool is_for_matmul(const Product& p) {
  constexpr std::size_t kSmallest = std::size_t{1} << 22;  // multiplications
  return p.transpose_a == Transpose::no && p.transpose_b == Transpose::yes && p.beta == 0.0F &&
         p.m >= 16 && p.work() >= kSmallest;
}

void matmul(const Product& p) {
  using Type = dnnl::memory::data_type;
  const Type type = p.is_rounded() ? Type::bf16 : Type::f32;
  const auto matrix = [](std::size_t rows, std::size_t columns, std::size_t leading, Type kind,
                         Transpose transpose) {
    const auto size = [](std::size_t extent) { return static_cast<dnnl::memory::dim>(extent); };
    const auto strides = transpose == Transpose::yes ? dnnl::memory::dims{1, size(leading)}
                                                     : dnnl::memory::dims{size(leading), 1};
    return dnnl::memory::desc({size(rows), size(columns)}, kind, strides);
  };
  const auto of_a = matrix(p.m, p.k, p.lda, type, p.transpose_a);
  const auto of_b = matrix(p.k, p.n, p.ldb, type, p.transpose_b);
  const auto of_c = matrix(p.m, p.n, p.ldc, Type::f32, Transpose::no);
  dnnl::primitive_attr attributes;
  if (p.beta != 0.0F) {
    dnnl::post_ops after;
    after.append_sum(p.beta);
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
    const auto at = [&](const dnnl::memory::desc& of, const float* data, const Bf16* rounded) {
      const void* read = p.is_rounded() ? static_cast<const void*>(rounded) : data;
      return dnnl::memory(of, engine, const_cast<void*>(read));
    };
    product.execute(stream, {{DNNL_ARG_SRC, at(of_a, p.a, p.rounded_a)},
                             {DNNL_ARG_WEIGHTS, at(of_b, p.b, p.rounded_b)},
                             {DNNL_ARG_DST, dnnl::memory(of_c, engine, p.c)}});
    stream.wait();
  } catch (const dnnl::error& error) {
    throw Error(fmt::format("oneDNN's matmul failed with status {}: {}",
                            static_cast<int>(error.status), error.what()));
  }
}

void multiply_by_onednn(const Product& p, [[maybe_unused]] int threads) {
#if defined(_OPENMP)
  // Set the number of threads on every call: it is a setting of the calling thread, which may
  // be one that main did not create.
  omp_set_num_threads(threads);
#endif
  if (p.is_rounded() || is_for_matmul(p)) return matmul(p);
  const auto size = [](std::size_t extent) { return static_cast<dnnl_dim_t>(extent); };
  const auto letter = [](Transpose t) { return t == Transpose::no ? 'N' : 'T'; };
  // Row-major, unlike BLAS.
  const dnnl_status_t status =
      dnnl_sgemm(letter(p.transpose_a), letter(p.transpose_b), size(p.m), size(p.n), size(p.k),
                 /*alpha=*/1.0F, p.a, size(p.lda), p.b, size(p.ldb), p.beta, p.c, size(p.ldc));
  if (status != dnnl_success) {
    throw Error(fmt::format("dnnl_sgemm failed with status {}", static_cast<int>(status)));
  }
}

#else

std::string why_no_onednn() {
  return "oneDNN was not there when this program was built";
}
std::string onednn_description() {
  return "";
}
void multiply_by_onednn(const Product&, int) {
  throw Error(why_no_onednn());
}

#endif

}  // namespace

const CpuLibrary kOneDnn{why_no_onednn, onednn_description, multiply_by_onednn,
                         /*has_threads=*/true};

bool onednn_has_bf16() {
#if DIST_WITH_ONEDNN
  constexpr auto kWanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kWanted) == kWanted;
#else
  return false;
#endif
}

}  // namespace dist
