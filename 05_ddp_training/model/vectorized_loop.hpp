// A loop that the compiler turns into vector instructions, several elements at a time:
//
//   for i in 0 ... n-1     body(0)  body(1)  body(2)  body(3)  body(4)  ...
//   with vectors          |--------- one instruction -------| |--------
#pragma once

#include <cstddef>

// A portable build (-DDIST_NATIVE=OFF) has no instruction for std::fma and would call a
// function for each element. So there, GCC compiles each loop for three generations of
// processors, and the loader picks one. The bits are the same, because files with such loops
// are compiled without contraction (dist_exact_float_sources). A sanitizer is not ready when
// the loader picks.
#if defined(__x86_64__) && !defined(__FMA__) && !defined(__clang__) && __GNUC__ >= 12 && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define DIST_FOR_EACH_PROCESSOR \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define DIST_FOR_EACH_PROCESSOR
#endif

namespace dist {

// Calls body(i) for begin <= i < end. The loop is a function of its own, which is never
// inlined, so that what surrounds it cannot change what the compiler makes of it: in its
// caller, it would find `body` in memory that others may write to, and GCC 12 would leave
// Adam's step scalar, at four times the time. test_vectorized_loops.py finds each loop by the
// name of this function.
template <class Body>
DIST_FOR_EACH_PROCESSOR __attribute__((noinline)) void vectorized_loop(std::size_t begin,
                                                                       std::size_t end,
                                                                       Body body) {
#pragma omp simd
  for (std::size_t i = begin; i < end; ++i) body(i);
}

}  // namespace dist
