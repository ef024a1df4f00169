// What this file adds: the matrices of a model as its products read them. With --precision
// fp32 these are the matrices themselves, with bf16 rounded copies.
#pragma once

#include "05_ddp_training/model/gemm.hpp"
#include "common/buffer.hpp"

#include <cstddef>
#include <vector>

namespace dist {

enum class Precision { fp32, bf16 };

class Factors {
 public:
  explicit Factors(Precision precision) : precision_(precision) {}

  // `matrix` as a factor of products on `stream`. A rounded copy is kept in place `place`,
  // until the next call with the same place.
  Factor of(const Stream& stream, std::size_t place, const Tensor& matrix);

  // The size of the copies in use.
  std::size_t size_bytes() const;

 private:
  Precision precision_;
  std::vector<Buffer<Bf16>> copies_;    // by place
  std::vector<Buffer<Bf16>> outgrown_;  // captured steps (StepGraph) still use these
};

}  // namespace dist
