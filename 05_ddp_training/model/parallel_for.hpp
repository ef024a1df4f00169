// One loop for both devices. It calls body(i) for every i, in any order.
//
// On a CPU stream it is an ordinary loop, which the compiler may vectorize. On a CUDA stream it
// is a grid-stride kernel (parallel_for_cuda.hpp). The contract is the same for both: no two
// indices write the same element, so the order of the indices has no effect, and results are
// bitwise reproducible.
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

#include "05_ddp_training/model/parallel_for_cuda.hpp"
#include "05_ddp_training/model/vectorized_loop.hpp"
#include "common/stream.hpp"

#include <cstddef>

namespace dist {

// Calls body(i) for every i below n. With the last two arguments, then calls last() once, on a
// GPU in the same kernel; it sees what all indices have written, and n must not be 0.
// `blocks_done` is 0, in the GPU's memory, and only one kernel at a time may use it. On a CPU
// it may be null.
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
    vectorized_loop(0, n, body);
  } else {
#pragma omp parallel for num_threads(stream.threads())
    for (std::size_t t = 0; t < threads; ++t) {
      vectorized_loop(n * t / threads, n * (t + 1) / threads, body);
    }
  }
  (last(), ...);
}

}  // namespace dist
