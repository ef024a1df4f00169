// Look at: load. OpenBLAS is loaded by the first product that needs it, and not linked.
//
// A linked library starts before main does, and Debian's OpenBLAS then starts a thread for each
// core, although one is enough here. Such a thread first waits in a loop; and a signal that
// hold_stop_signals (trainer/guards.hpp) blocks later, in main, would end the program there.
#include "05_ddp_training/model/gemm_cpu.hpp"
#include "common/check.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
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
  bool takes_turns = false;  // the variant without threads, which only one may call at a time
  std::string description, problem;
};

// Throws Error if the library is null or has no such function.
template <class F>
F* find(void* library, const char* name) {
  void* const address = library == nullptr ? nullptr : ::dlsym(library, name);
  if (address != nullptr) return reinterpret_cast<F*>(address);
  const char* const why = ::dlerror();
  throw Error(fmt::format("OpenBLAS cannot be loaded: {}", why == nullptr ? name : why));
}

// Debian has three variants under one name: without threads, with threads of its own, and with
// OpenMP's. All of them obey if they are to use one thread; more are ours (multiply_one in
// matmul_library.cpp), which the first variant lets in one by one: it is not thread-safe.
OpenBlas load() {
  ::setenv("OPENBLAS_NUM_THREADS", "1", /*overwrite=*/1);  // dlopen reads it, and only then
  void* library = ::dlopen(DIST_OPENBLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  // On a host with what programs need to run, and not what they need to be built.
  if (library == nullptr) library = ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  try {
    find<decltype(openblas_set_num_threads)>(library, "openblas_set_num_threads")(1);
    // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    const std::string built =
        find<decltype(openblas_get_config)>(library, "openblas_get_config")();
    const std::size_t second_space = built.find(' ', built.find(' ') + 1);
    const char* const kernels =
        find<decltype(openblas_get_corename)>(library, "openblas_get_corename")();
    const bool takes_turns =
        find<decltype(openblas_get_parallel)>(library, "openblas_get_parallel")() == 0;
    return {find<decltype(cblas_sgemm)>(library, "cblas_sgemm"), takes_turns,
            fmt::format("{} ({}{})", built.substr(0, second_space), kernels,
                        takes_turns ? ", without threads" : ""),
            ""};
  } catch (const Error& error) {
    return {nullptr, false, "", error.what()};
  }
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
  static std::mutex turn;
  std::unique_lock lock(turn, std::defer_lock);
  if (openblas().takes_turns) lock.lock();
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

bool openblas_has_threads() {
#if DIST_WITH_OPENBLAS
  return !openblas().takes_turns;
#else
  return false;
#endif
}

const CpuLibrary kOpenBlas{why_no_openblas, openblas_description, multiply_by_openblas,
                           /*has_threads=*/false};

}  // namespace dist
