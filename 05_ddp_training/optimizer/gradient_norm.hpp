// What this file adds: the norm of all gradients together, for --clip-norm.
// Builds on: update_kernels, whose decision turns the norm into a factor.
// Source: torch.nn.utils.clip_grad_norm_ multiplies every gradient by
// min(1, limit / (norm + 1e-6)).
//
// Float addition is not associative, so the order matters if two kinds of runs should get the
// same bits. The squares are added in double precision, first within blocks, then the blocks of
// one rank's chunks (sharding/), then rank by rank. With --shard, each rank adds up its
// own chunks, and the ranks exchange the sums. Otherwise every rank adds up all chunks.
#pragma once

#include "05_ddp_training/optimizer/update_kernels.hpp"
#include "common/buffer.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace dist {

class GradientNorm {
 public:
  // A range of the gradient of tensor number `tensor`, in the chunk of rank `rank`.
  struct Range {
    std::size_t tensor, begin, count;
    int rank;
  };
  // `ranges` are sorted by rank. If they are only this rank's, `is_exchanged` is true: the sums
  // are then averaged over the ranks after queue_squares.
  GradientNorm(double limit, std::vector<Range> ranges, int ranks, bool is_exchanged,
               const Stream& stream);

  // Queues work that writes squares().
  void queue_squares(std::span<const UpdateTensors> tensors, const Stream& stream) const;
  // For each rank, the sum of its chunks' squares divided by the number of ranks, in the
  // device's memory.
  std::span<double> squares() const { return {squares_.data(), squares_.size()}; }
  double limit() const { return limit_; }

 private:
  double limit_;
  std::vector<Range> ranges_;
  double factor_;
  // The sums of squares: of each thread (on a GPU only), each block and each rank. Where each
  // rank's threads and blocks begin, and where the last one's end.
  Buffer<double> threads_;
  Buffer<std::size_t> first_thread_;
  Buffer<double> blocks_;
  Buffer<std::size_t> first_block_;
  Buffer<double> squares_;
};

}  // namespace dist
