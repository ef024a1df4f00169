// What this file adds: a matrix product on the CPU as each of three libraries computes it, and
// which of them does (matmul_library.cpp).
#pragma once

#include "05_ddp_training/model/gemm.hpp"

#include <cstddef>
#include <string>

namespace dist {

// c = op(a) op(b) + beta c, in BLAS's words for matrices that are stored row by row: op(a) is
// (m, k), op(b) is (k, n), c is (m, n), and a row of x begins ldx elements after the row
// before. None of the sizes is 0, except perhaps k.
struct Product {
  Transpose transpose_a, transpose_b;
  std::size_t m, n, k;
  const float* a;
  std::size_t lda;
  const float* b;
  std::size_t ldb;
  float beta;
  float* c;
  std::size_t ldc;
  // If not null, these are read instead of a and b: the same numbers, rounded.
  const Bf16* rounded_a = nullptr;
  const Bf16* rounded_b = nullptr;

  bool is_rounded() const { return rounded_a != nullptr; }
  // Lets a or b begin so many elements later.
  void move_a(std::size_t elements) {
    is_rounded() ? void(rounded_a += elements) : void(a += elements);
  }
  void move_b(std::size_t elements) {
    is_rounded() ? void(rounded_b += elements) : void(b += elements);
  }
  // The product of matrix i of a batch, if this is that of matrix 0. The matrices of a batch
  // lie one after another.
  Product of_batch(std::size_t i) const;
  // Multiplications.
  std::size_t work() const { return m * n * k; }
};

// A library that multiplies. What does not have threads uses the one that calls it.
struct CpuLibrary {
  std::string (*why_not)();      // why this build, or this machine, cannot use it; or empty
  std::string (*description)();  // its name, version and kernels: "OpenBLAS 0.3.21 (Zen)"
  void (*multiply)(const Product& product, int threads);
  bool has_threads;
};
extern const CpuLibrary kPlain, kOneDnn, kOpenBlas;

// Whether oneDNN is in this build and uses instructions of this CPU that multiply bfloat16.
bool onednn_has_bf16();

// Whether several threads may multiply with OpenBLAS at the same time.
bool openblas_has_threads();

// Multiplies `count` pairs of matrices, of which `product` is the first, with the library of
// `stream`, which is on the CPU.
void multiply(const Stream& stream, const Product& product, std::size_t count);

}  // namespace dist
