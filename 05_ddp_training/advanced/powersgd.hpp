// What this file adds: summaries of gradients ("PowerSGD", Vogels et al., 2019).
// Builds on: 03, ring; the matrix product.
// Look at: exchange, in which two small all-reduces stand in for a large one.
#pragma once

#include "03_all_reduce/ring.hpp"
#include "05_ddp_training/model/gemm.hpp"
#include "05_ddp_training/model/module.hpp"
#include "common/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>

namespace dist {

// Makes the rows of `matrix` perpendicular to each other and of length 1 (Gram-Schmidt). The
// second pass removes what rounding has left. If a row is a combination of the rows before it,
// up to rounding, a random one takes its place.
inline void orthogonalize(const Tensor& matrix, Generator& random) {
  const std::size_t width = matrix.dim(1);
  const auto row_at = [&](std::size_t i) { return matrix.span().subspan(i * width, width); };
  const auto dot = [](std::span<const float> a, std::span<const float> b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  for (std::size_t i = 0; i < matrix.dim(0); ++i) {
    const std::span<float> row = row_at(i);
    for (int passes_left = 2; passes_left > 0; --passes_left) {
      const double length = std::sqrt(dot(row, row));
      for (std::size_t j = 0; j < i; ++j) {
        const std::span<const float> other = row_at(j);
        const auto along = static_cast<float>(dot(row, other));
        for (std::size_t k = 0; k < width; ++k) row[k] -= along * other[k];
      }
      const double left = std::sqrt(dot(row, row));
      for (float& value : row) value /= static_cast<float>(left);
      if (!(left <= 1e-5 * length)) continue;  // also with NaN, which no random row would mend
      fill_normal(row, random);
      passes_left = 3;
    }
  }
}

// One matrix of the model: its gradient, and what a rank keeps from step to step.
class PowerSgd {
 public:
  // Called on all ranks with the same numbers. exchange replaces `gradient`, which is (n, m). A
  // larger `matrix_rank` loses less, with min(n, m) nothing; without `feedback`, for good.
  PowerSgd(const Tensor& gradient, std::size_t matrix_rank, bool feedback, std::uint64_t seed)
      : gradient_(gradient), kept_(gradient.shape(), {}), feedback_(feedback), random_(seed) {
    const std::size_t n = gradient.dim(0), m = gradient.dim(1);
    p_ = Tensor({std::min({matrix_rank, n, m}), n}, {});
    q_ = Tensor({p_.dim(0), m}, {});
    fill_normal(q_.span(), random_);
  }

  // Replaces the gradient by an approximation of the ranks' mean, the same on all of them.
  // Called on all ranks. Exchanges matrix_rank (n + m) numbers instead of n m.
  void exchange(const Communicator& comm, const Stream& stream) {
    const std::span<float> gradient = gradient_.span(), kept = kept_.span();
    // Error feedback: M is this step's gradient and what earlier exchanges have lost.
    std::ranges::transform(gradient, kept, gradient.begin(), std::plus());
    std::ranges::copy(gradient, kept.begin());
    // Q is the last step's (a warm start), so the steps are a power iteration: P and Q turn to
    // what the gradients have most of. P's columns are perpendicular and of length 1, so
    // P Q^T = P P^T M is the part of M in their directions. p_ and q_ are P and Q, transposed.
    gemm(stream, Transpose::no, Transpose::yes, q_, gradient_, 0, p_);  // P^T = Q^T M^T
    all_reduce_ring(comm, p_.span(), ReduceOp::avg);
    orthogonalize(p_, random_);
    gemm(stream, Transpose::no, Transpose::no, p_, gradient_, 0, q_);  // Q^T = P^T M
    all_reduce_ring(comm, q_.span(), ReduceOp::avg);
    gemm(stream, Transpose::yes, Transpose::no, p_, q_, 0, gradient_);  // P Q^T
    std::ranges::transform(kept, gradient, kept.begin(), std::minus());
    if (!feedback_) std::ranges::fill(kept, 0.0F);
  }

  // What this rank has not sent yet, of the gradient's shape.
  const Tensor& kept() const { return kept_; }

 private:
  Tensor gradient_, kept_, p_, q_;
  bool feedback_;
  Generator random_;  // draws the same on all ranks, as P is the same
};

}  // namespace dist
