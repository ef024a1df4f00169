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

#include "common/build_config.hpp"
#include "common/stream.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

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

// The number of blocks of `size` that hold `count` elements; the last one may be smaller.
DIST_HOST_DEVICE constexpr std::size_t blocks_of(std::size_t count, std::size_t size) {
  return (count + size - 1) / size;
}

namespace detail {

#if DIST_CUDA_EMULATED
template <class Body, class... Last>
void launch(const Stream& stream, std::size_t n, Body body, unsigned*, Last... last) {
  emulation::launch(stream.get(), n, body, last...);
  CUDA_CHECK(cudaGetLastError());
}
template <class Body>
constexpr const void* for_each_index = nullptr;  // there is no kernel
#elif DIST_WITH_CUDA
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
  // Enough blocks to fill any GPU. With more indices than threads, each takes several.
  constexpr std::size_t kMostBlocks = 4096;
  const auto blocks =
      static_cast<unsigned>(std::min(blocks_of(n, kThreadsPerBlock), kMostBlocks));
  // clang-format off
  for_each_index<<<blocks, kThreadsPerBlock, 0, stream.get()>>>(n, body, blocks_done, last...);
  // clang-format on
  CUDA_CHECK(cudaGetLastError());
}
#endif

// Why the current GPU cannot run the loop over `Body`; empty if it can, and without CUDA.
template <class Body>
std::string why_no_kernel() {
#if DIST_WITH_CUDA
  cudaFuncAttributes attributes{};
  if (const cudaError_t status = cudaFuncGetAttributes(&attributes, for_each_index<Body>)) {
    static_cast<void>(cudaGetLastError());
    return std::string(cudaGetErrorString(status)) +
           (status == cudaErrorNoKernelImageForDevice
                ? "; remove the build folder, and configure on a host with this GPU or with "
                  "CUDAARCHS in the environment"
                : "");
  }
#endif
  return "";
}

// One thread's share of a loop, in a function of its own, so that what surrounds the loop
// cannot change what the compiler makes of it. Inlined into its caller, the loop would find
// `body` in memory that others may write to, and GCC 12 would leave Adam's step scalar, at four
// times the time. test_vectorized_loops.py finds each loop by the name of this function.
template <class Body>
DIST_LOOP void on_one_thread(std::size_t begin, std::size_t end, Body body) {
#pragma omp simd
  for (std::size_t i = begin; i < end; ++i) body(i);
}

}  // namespace detail

// On a GPU, parallel_for(stream, n, body, blocks_done, last) then calls last() once, in the
// same kernel; it sees what all indices have written, and n must not be 0. `blocks_done` is 0,
// in the GPU's memory, and only one kernel at a time may use it. On a CPU it may be null.
template <class Body, class... Last>
void parallel_for(const Stream& stream, std::size_t n, const Body& body,
                  [[maybe_unused]] unsigned* blocks_done = nullptr, const Last&... last) {
#if DIST_WITH_CUDA
  if (!stream.device().is_cpu()) {
    if (n > 0) detail::launch(stream, n, body, blocks_done, last...);
    return;
  }
#endif
  const auto threads = static_cast<std::size_t>(stream.threads());
  if (threads == 1) {  // starting a team, even of one, takes longer than a small loop
    detail::on_one_thread(0, n, body);
  } else {
#pragma omp parallel for num_threads(stream.threads())
    for (std::size_t t = 0; t < threads; ++t) {
      detail::on_one_thread(n * t / threads, n * (t + 1) / threads, body);
    }
  }
  (last(), ...);
}

namespace detail {

template <class Part, class Body>
struct OnPart {
  Body body;
  Part part;
  DIST_HOST_DEVICE void operator()(std::size_t i) const { body(part, i); }
};

// Maps one range of indices to the blocks of several parts. The table is an argument of the
// kernel, and these were limited to 4 KiB before CUDA 12.1.
template <std::size_t kBlock, class Part, class Body>
struct OnParts {
  static constexpr std::size_t kMost = 64;
  Body body;
  Part parts[kMost] = {};
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    std::size_t p = 0;
    for (; i >= blocks_of(parts[p].count, kBlock); ++p) i -= blocks_of(parts[p].count, kBlock);
    body(parts[p], i);
  }
};

}  // namespace detail

// Calls body(part, b) for every block b of kBlock elements of every part, which has
// part.count elements, and then last(), as parallel_for does. On a GPU, one kernel handles up
// to 64 parts: launching one takes longer than updating a bias. PyTorch's multi_tensor_apply
// does the same. On a CPU, the loop over a part has its own copy of it.
template <std::size_t kBlock, class Part, class Body, class... Last>
void parallel_for_parts(const Stream& stream, std::span<const Part> parts, const Body& body,
                        unsigned* blocks_done = nullptr, const Last&... last) {
  if (stream.device().is_cpu()) {
    for (const Part& part : parts) {
      parallel_for(stream, blocks_of(part.count, kBlock),
                   detail::OnPart<Part, Body>{body, part});
    }
    (last(), ...);
    return;
  }
  using Table = detail::OnParts<kBlock, Part, Body>;
  static_assert(sizeof(Table) < 4096 - 512);
  while (!parts.empty()) {
    Table table{body};
    std::size_t blocks = 0;
    const auto some = parts.first(std::min(Table::kMost, parts.size()));
    for (const Part& part : some) blocks += blocks_of(part.count, kBlock);
    std::ranges::copy(some, table.parts);
    parts = parts.subspan(some.size());
    if (parts.empty()) {
      parallel_for(stream, blocks, table, blocks_done, last...);
    } else {
      parallel_for(stream, blocks, table);
    }
  }
}

}  // namespace dist
