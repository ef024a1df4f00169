// Look at: load. OpenBLAS is loaded by the first product that needs it, and not linked.
//
// A linked library starts before main does, and Debian's OpenBLAS then starts a thread for each
// core, although one is enough here. Such a thread first waits in a loop; and a signal that
// hold_stop_signals (trainer/guards.hpp) blocks later, in main, would end the program there.
#include "05_ddp_training/model/gemm_cpu.hpp"
#include "common/check.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#if defined(_OPENMP)
#include <omp.h>
#endif

#if DIST_WITH_OPENBLAS
#include <cblas.h>
#include <dlfcn.h>
#endif

namespace dist {
namespace {

#if DIST_WITH_OPENBLAS

struct OpenBlas {
  decltype(&cblas_sgemm) sgemm = nullptr;
  std::string description, problem;
};

// Debian has three variants under one name: without threads, with threads of its own, and with
// OpenMP's. All of them obey if they are to use one thread; more are ours (multiply_in_team).
OpenBlas load() {
  OpenBlas loaded;
  ::setenv("OPENBLAS_NUM_THREADS", "1", /*overwrite=*/1);  // it is read only once, by dlopen
  void* const library = ::dlopen(DIST_OPENBLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  const auto find = [&]<class F>(F*, const char* name) -> F* {
    void* const address = library == nullptr ? nullptr : ::dlsym(library, name);
    if (address == nullptr && loaded.problem.empty()) loaded.problem = ::dlerror();
    return reinterpret_cast<F*>(address);
  };
  loaded.sgemm = find(&cblas_sgemm, "cblas_sgemm");
  const auto config = find(&openblas_get_config, "openblas_get_config");
  const auto kernels = find(&openblas_get_corename, "openblas_get_corename");
  const auto set_threads = find(&openblas_set_num_threads, "openblas_set_num_threads");
  if (!loaded.problem.empty()) return loaded;
  set_threads(1);
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  const std::string built = config();
  const std::size_t second = built.find(' ', built.find(' ') + 1);
  loaded.description = fmt::format("{} ({})", built.substr(0, second), kernels());
  return loaded;
}

const OpenBlas& openblas() {
  static const OpenBlas loaded = load();
  return loaded;
}

std::string why_no_openblas() {
  return openblas().problem;
}

std::string openblas_description() {
  return openblas().description;
}

void multiply_by_openblas(const Product& p, int) {
#if defined(_OPENMP)
  omp_set_num_threads(1);  // of this thread, which main may not have created
#endif
  const auto flag = [](Transpose t) { return t == Transpose::no ? CblasNoTrans : CblasTrans; };
  const auto size = [](std::size_t extent) { return static_cast<blasint>(extent); };
  openblas().sgemm(CblasRowMajor, flag(p.transpose_a), flag(p.transpose_b), size(p.m),
                   size(p.n), size(p.k), /*alpha=*/1.0F, p.a, size(p.lda), p.b, size(p.ldb),
                   p.beta, p.c, size(p.ldc));
}

#else

std::string why_no_openblas() {
  return "OpenBLAS was not there when this program was built";
}
std::string openblas_description() {
  return "";
}
void multiply_by_openblas(const Product&, int) {
  throw Error(why_no_openblas());
}

#endif

}  // namespace

const CpuLibrary kOpenBlas{why_no_openblas, openblas_description, multiply_by_openblas,
                           /*has_threads=*/false};

}  // namespace dist
