// parallel_for on a GPU: a kernel whose threads take the indices in turn, in strides of their
// number (a grid-stride loop). With 4 threads:
//
//   index    0 1 2 3 | 4 5 6 7 | 8 9
//   thread   0 1 2 3 | 0 1 2 3 | 0 1
#pragma once

#include "common/build_config.hpp"
#include "common/stream.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#if DIST_WITH_CUDA
#include "common/check_cuda.hpp"
#endif

#if DIST_WITH_CUDA && !DIST_CUDA_EMULATED && !defined(__CUDACC__)
#error \
    "a CUDA build compiles files that use parallel_for with nvcc: list this one in dist_device_sources"
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

}  // namespace detail
}  // namespace dist
