// The matrix product of the emulated cuBLAS and cuBLASLt.
#pragma once

#include "05_ddp_training/model/bf16.hpp"

#include <cstddef>

namespace emulation {

// Column-major and dense: c (m, n) = op(a) (m, k) op(b) (k, n) + beta c. Adds in the
// opposite order of the CPU's product, so results differ in their last bits, as they do on a
// GPU, and a test that expects equal bits fails.
struct Product {
  bool rounded;         // a and b are bfloat16
  bool flip_a, flip_b;  // op is the transpose
  int m, n, k;
  const void* a;
  const void* b;
  float beta;
  float* c;

  void compute() const;
  // Element `i` of a or b.
  float read(const void* factor, std::size_t i) const {
    return rounded ? dist::to_float(static_cast<const dist::Bf16*>(factor)[i])
                   : static_cast<const float*>(factor)[i];
  }
};

}  // namespace emulation
