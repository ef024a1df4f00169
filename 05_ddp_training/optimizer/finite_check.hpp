// What this file adds: the test for gradients that are not finite. A single such number, in one
// gradient of one rank, could spread to the parameters of all ranks, so the optimizer skips the
// step (Decide in optimizer.cpp). Testing the averaged gradients needs no messages: a sum is
// not finite if one of its terms is not, and all ranks have the same sums.
#pragma once

#include "05_ddp_training/optimizer/update.hpp"

#include <atomic>
#include <cmath>

namespace dist {

// Raises the flag of a tensor whose gradient is not finite somewhere in a block of kSize
// elements. The compiler vectorizes the loop over a block, because it has no branch.
template <std::size_t kSize>
struct CheckBlock {
  DIST_HOST_DEVICE void operator()(const UpdateTensors& t, std::size_t block) const {
    const std::size_t begin = block * kSize;
    const std::size_t end = t.count - begin < kSize ? t.count : begin + kSize;
    int found = 0;
    for (std::size_t i = begin; i < end; ++i) {
      // The comparison is false for infinity and, like every comparison, for NaN.
      found |= std::fabs(t.gradient[i]) <= 3.402823466e38F ? 0 : 1;
    }
    if (found == 0) return;
      // Several blocks may raise the same flag, but all of them write the same value.
#if defined(__CUDA_ARCH__)
    *t.not_finite = 1.0F;
#else
    std::atomic_ref<float>(*t.not_finite).store(1.0F, std::memory_order_relaxed);
#endif
  }
};

}  // namespace dist
