// The matrix product of the emulated cuBLAS and cuBLASLt.
#pragma once

namespace emulation {

// Column-major and dense: c (m, n) = alpha op(a) (m, k) op(b) (k, n) + beta c. Adds in the
// opposite order of the CPU's product, so results differ in their last bits, as they do on a
// GPU, and a test that expects equal bits fails.
struct Product {
  bool flip_a, flip_b;  // op is the transpose
  int m, n, k;
  float alpha;
  const float* a;
  const float* b;
  float beta;
  float* c;

  void compute() const;
};

}  // namespace emulation
