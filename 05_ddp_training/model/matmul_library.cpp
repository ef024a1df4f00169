// Look at: is_for_openblas, the choice between two libraries.
#include "05_ddp_training/model/matmul_library.hpp"

#include "05_ddp_training/model/gemm_cpu.hpp"
#include "common/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

namespace dist {
namespace {

// Instructions that Debian 12's OpenBLAS does not use on CPUs that are newer than itself.
bool has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") != 0;
#else
  return false;
#endif
}

const CpuLibrary& library_of(MatmulLibrary library) {
  switch (library) {
    case MatmulLibrary::onednn: return kOneDnn;
    case MatmulLibrary::openblas: return kOpenBlas;
    case MatmulLibrary::automatic:
    case MatmulLibrary::plain: return kPlain;
  }
  return kPlain;
}

// What `automatic` is here, for the products that is_for_openblas names, and for all others.
// The two are the same library with AVX-512, and in a build that has only one.
struct Choice {
  const CpuLibrary& for_openblas;
  const CpuLibrary& others;
};
const Choice& automatic_choice() {
  static const Choice choice = [] {
    const bool onednn = kOneDnn.why_not().empty();
    if (onednn && has_avx512()) return Choice{kOneDnn, kOneDnn};
    const bool openblas = kOpenBlas.why_not().empty();
    const CpuLibrary& others = onednn ? kOneDnn : openblas ? kOpenBlas : kPlain;
    return Choice{openblas ? kOpenBlas : others, others};
  }();
  return choice;
}

// Measured on two cores of the Zen 3 kind (bench/results/matmul.md), where oneDNN is 5 to 30 %
// faster if a matrix is small or thin, and OpenBLAS
//   - up to 2.5 times as fast if b's rows are a multiple of 2 KiB long: they fall into the same
//     few sets of the cache, and oneDNN does not copy them before it reads them;
//   - as fast or faster if no extent is small. For the gradient of a weight, whose k is the
//     number of samples, that begins later, because OpenBLAS first writes zeros into c; if it
//     adds to what is there, it begins earlier.
bool is_for_openblas(const Product& p) {
  const bool of_weight = p.transpose_a == Transpose::yes, adds = p.beta != 0;
  const std::size_t smallest = std::min({p.m, p.n, p.k});
  if (smallest >= (!of_weight ? 128U : adds ? 64U : 256U)) return true;
  return smallest >= 32 && p.transpose_b == Transpose::no && p.n % 512 == 0 &&
         (!of_weight || p.n == 512);
}

// Calls body(part) for each of `parts`, a thread of OpenMP for each. Rethrows what one throws.
void in_team(std::size_t parts, const std::function<void(std::size_t part)>& body) {
  if (parts == 1) return body(0);
  std::vector<std::exception_ptr> problems(parts);  // none may leave a thread of the team
  [[maybe_unused]] const int team = static_cast<int>(parts);
#pragma omp parallel for num_threads(team) schedule(static, 1)
  for (std::size_t part = 0; part < parts; ++part) {
    try {
      body(part);
    } catch (...) {
      problems[part] = std::current_exception();
    }
  }
  for (const std::exception_ptr& problem : problems) {
    if (problem) std::rethrow_exception(problem);
  }
}

// With several threads, each computes some rows of c, or some columns if there are more.
void multiply_one(const CpuLibrary& library, const Product& p, std::size_t threads) {
  constexpr std::size_t kFewest = 16;  // rows or columns per thread
  const bool rows = p.m >= p.n;
  const std::size_t extent = rows ? p.m : p.n;
  const std::size_t parts = std::clamp<std::size_t>(extent / kFewest, 1, threads);
  if (library.has_threads || parts == 1) {
    return library.multiply(p, static_cast<int>(threads));
  }
  in_team(parts, [&](std::size_t part) {
    const std::size_t begin = extent * part / parts;
    const std::size_t count = extent * (part + 1) / parts - begin;
    Product mine = p;
    if (rows) {
      mine.m = count;
      mine.move_a(begin * (p.transpose_a == Transpose::no ? p.lda : 1));
      mine.c += begin * p.ldc;
    } else {
      mine.n = count;
      mine.move_b(begin * (p.transpose_b == Transpose::no ? 1 : p.ldb));
      mine.c += begin;
    }
    library.multiply(mine, /*threads=*/1);
  });
}

// What the stream's user has chosen.
MatmulLibrary wanted(const Stream& stream) {
  const void* const kept = stream.companion().get();
  return kept == nullptr ? MatmulLibrary::automatic : *static_cast<const MatmulLibrary*>(kept);
}

const CpuLibrary& library_for(const Stream& stream, const Product& p) {
  if (p.k == 0) return kPlain;  // oneDNN rejects an empty sum or leaves c unchanged
  if (p.is_rounded()) return onednn_has_bf16() ? kOneDnn : kPlain;
  const MatmulLibrary library = wanted(stream);
  if (library != MatmulLibrary::automatic) return library_of(library);
  const Choice& choice = automatic_choice();
  const bool waits =
      stream.threads() > 1 && &choice.for_openblas == &kOpenBlas && !openblas_has_threads();
  return is_for_openblas(p) && !waits ? choice.for_openblas : choice.others;
}

}  // namespace

void declare_matmul(CommandLine& flags, MatmulLibrary& library) {
  flags.only(Effect::rounding)
      .choice("--matmul", library, kMatmulLibraries,
              "library of the matrix products on the CPU; auto: the faster one on this CPU");
  flags.check([&library] {
    const std::string why = why_no_matmul(library);
    if (!why.empty()) throw Error(fmt::format("--matmul: {}", why));
  });
}

std::string why_no_matmul(MatmulLibrary library) {
  return library_of(library).why_not();
}

void use_matmul_library(const Stream& stream, MatmulLibrary library) {
  if (stream.device().is_cpu()) stream.companion() = std::make_shared<MatmulLibrary>(library);
}

std::string describe_matmul(MatmulLibrary library) {
  if (library != MatmulLibrary::automatic) return library_of(library).description();
  const auto& [for_openblas, others] = automatic_choice();
  if (&for_openblas == &others) return others.description();
  return fmt::format("{} and {}", for_openblas.description(), others.description());
}

Product Product::of_batch(std::size_t i) const {
  Product product = *this;
  product.move_a(i * m * k);
  product.move_b(i * k * n);
  product.c += i * m * n;
  return product;
}

void multiply(const Stream& stream, const Product& product, std::size_t count) {
  const CpuLibrary& library = library_for(stream, product);
  const auto threads = static_cast<std::size_t>(stream.threads());
  // A team takes microseconds to start.
  constexpr std::size_t kWorth = std::size_t{1} << 18, kAlone = std::size_t{1} << 22;
  if (count > 1 && product.work() < kAlone && count * product.work() >= kWorth) {
    const std::size_t parts = std::min(threads, count);
    return in_team(parts, [&](std::size_t part) {
      for (std::size_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
        library.multiply(product.of_batch(i), /*threads=*/1);
      }
    });
  }
  for (std::size_t i = 0; i < count; ++i) multiply_one(library, product.of_batch(i), threads);
}

}  // namespace dist
