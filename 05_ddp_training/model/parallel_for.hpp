// One loop for both devices. It calls body(i) for every i, in any order.
//
// On a CPU stream it is an ordinary loop, which the compiler may vectorize. On a CUDA stream it
// is a grid-stride kernel. The contract is the same for both: no two indices write the same
// element, so the order of the indices has no effect, and results are bitwise reproducible.
//
//   struct Axpy {
//     float a;
//     const float* x;
//     float* y;
//     DIST_HOST_DEVICE void operator()(std::size_t i) const { y[i] = a * x[i] + y[i]; }
//   };
//   parallel_for(stream, n, Axpy{a, x, y});
//
// Why a struct, although a lambda would be shorter? A struct shows what is copied to the GPU.
// Moreover, if nvcc compiles a lambda for both devices, the CPU calls it through a pointer, so
// the loop is not vectorized (Adam's step took six times as long).
#pragma once

#include "common/stream.hpp"

#include <cstddef>

#if DIST_WITH_CUDA && !DIST_CUDA_EMULATED && !defined(__CUDACC__)
#error \
    "a CUDA build compiles files that use parallel_for with nvcc: list this one in dist_device_sources"
#endif

#if DIST_WITH_CUDA
#include "common/check_cuda.hpp"
#endif

// The attributes of a loop's function. on_one_thread says why it must not be inlined. A
// portable build (-DDIST_NATIVE=OFF) has no instruction for std::fma and would call a function
// for each element. So it contains each loop for three generations of processors, and the
// loader picks one. The bits are the same, because these files are compiled without contraction
// (see dist_exact_float_sources). A sanitizer is not ready when the loader picks.
#if defined(__x86_64__) && !defined(__FMA__) && !defined(__clang__) && __GNUC__ >= 12 && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define DIST_LOOP \
  __attribute__((noinline, target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define DIST_LOOP __attribute__((noinline))
#endif

namespace dist {

#if DIST_WITH_CUDA
namespace detail {

// Maps one range of indices to the rows and columns of a matrix.
template <class Body>
struct ByRowAndColumn {
  Body body;
  std::size_t columns;
  DIST_HOST_DEVICE void operator()(std::size_t i) const { body(i / columns, i % columns); }
};

#if DIST_CUDA_EMULATED
template <class Body, class... Last>
void launch(const Stream& stream, std::size_t n, Body body, unsigned*, Last... last) {
  emulation::launch(stream.get(), n, body, last...);
  CUDA_CHECK(cudaGetLastError());
}
#else
constexpr int kThreadsPerBlock = 256;

// Blocks run in any order, and nothing waits for all of them. Each block therefore counts
// itself when it is done, and the one that is last calls last().
template <class Body, class... Last>
__global__ void for_each_index(std::size_t n, Body body, unsigned* blocks_done, Last... last) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    body(i);
  }
  if constexpr (sizeof...(last) > 0) {
    __threadfence();  // what this thread wrote is visible before its block counts
    __syncthreads();
    // atomicInc starts again at 0 when all blocks have counted, ready for the next launch.
    if (threadIdx.x == 0 && atomicInc(blocks_done, gridDim.x - 1) == gridDim.x - 1) {
      __threadfence();
      (last(), ...);
    }
  }
}

template <class Body, class... Last>
void launch(const Stream& stream, std::size_t n, const Body& body, unsigned* blocks_done,
            const Last&... last) {
  // Enough blocks to fill any GPU. If there are more indices than threads, each thread takes
  // several.
  constexpr std::size_t kMostBlocks = 4096;
  const std::size_t wanted = (n + kThreadsPerBlock - 1) / kThreadsPerBlock;
  const auto blocks = static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks);
  // clang-format off
  for_each_index<<<blocks, kThreadsPerBlock, 0, stream.get()>>>(n, body, blocks_done, last...);
  // clang-format on
  CUDA_CHECK(cudaGetLastError());
}
#endif

}  // namespace detail
#endif

namespace detail {

// One thread's share of a loop, in a function of its own, so that what surrounds the loop
// cannot change what the compiler makes of it. Inlined into adam_step, the loop would find
// `body` in memory that others may write to, and GCC 12 would leave it scalar, at four times
// the time. tests/vectors_test finds each loop by the name of this function.
template <class Body>
DIST_LOOP void on_one_thread(std::size_t begin, std::size_t end, Body body) {
#pragma omp simd
  for (std::size_t i = begin; i < end; ++i) body(i);
}

// The same for rows of a matrix. A whole row runs in the inner loop, which saves a division per
// element.
template <class Body>
DIST_LOOP void on_one_thread(std::size_t begin, std::size_t end, std::size_t columns,
                             Body body) {
  for (std::size_t row = begin; row < end; ++row) {
#pragma omp simd
    for (std::size_t column = 0; column < columns; ++column) body(row, column);
  }
}

// Splits n indices into one share per thread.
template <class... Rest>
void on_threads(const Stream& stream, std::size_t n, const Rest&... rest) {
  const auto threads = static_cast<std::size_t>(stream.threads());
  if (threads == 1) {  // starting a team, even of one, takes longer than a small loop
    on_one_thread(0, n, rest...);
    return;
  }
#pragma omp parallel for num_threads(stream.threads())
  for (std::size_t t = 0; t < threads; ++t) {
    on_one_thread(n * t / threads, n * (t + 1) / threads, rest...);
  }
}

}  // namespace detail

template <class Body>
void parallel_for(const Stream& stream, std::size_t n, Body body) {
  if (n == 0) return;
#if DIST_WITH_CUDA
  if (!stream.device().is_cpu()) {
    detail::launch(stream, n, body, nullptr);
    return;
  }
#endif
  detail::on_threads(stream, n, body);
}

// The same for n > 0, followed by last(), which runs once and sees what all indices have
// written. On a GPU this takes one kernel instead of two. `blocks_done` is 0, in the GPU's
// memory, and only one kernel at a time may use it.
template <class Body, class Last>
void parallel_for_then(const Stream& stream, std::size_t n, Body body, Last last,
                       [[maybe_unused]] unsigned* blocks_done) {
#if DIST_WITH_CUDA
  if (!stream.device().is_cpu()) {
    detail::launch(stream, n, body, blocks_done, last);
    return;
  }
#endif
  parallel_for(stream, n, body);
  last();
}

// The same loop over a matrix, calling body(row, column).
template <class Body>
void parallel_for(const Stream& stream, std::size_t rows, std::size_t columns, Body body) {
  if (rows == 0 || columns == 0) return;
#if DIST_WITH_CUDA
  if (!stream.device().is_cpu()) {
    detail::launch(stream, rows * columns, detail::ByRowAndColumn<Body>{body, columns},
                   nullptr);
    return;
  }
#endif
  detail::on_threads(stream, rows, columns, body);
}

}  // namespace dist
