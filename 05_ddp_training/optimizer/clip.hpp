// What this file adds: --clip-norm, which scales all gradients down together.
//
// Float addition is not associative, so the order matters if two kinds of runs should get the
// same bits. The squares are added in double precision, first within blocks, then the blocks of
// one rank's chunks (sharding/), then chunk by chunk. With --shard, each rank adds up its own
// chunks, and the ranks exchange the sums. Otherwise every rank adds up all chunks.
#pragma once

#include "05_ddp_training/optimizer/update.hpp"
#include "common/buffer.hpp"
#include "common/stream.hpp"

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace dist {

// Like torch.nn.utils.clip_grad_norm_, multiplies every gradient by
// min(1, limit / (norm + 1e-6)). `squares` are GradientNorm's.
DIST_HOST_DEVICE inline void prepare_clipping(UpdateState& s, std::span<const double> squares,
                                              double limit) {
  double sum = 0;  // of squares that were divided by the number of ranks
  for (std::size_t i = 0; i < squares.size(); ++i) sum += squares[i];
  s.norm = std::sqrt(sum * static_cast<double>(squares.size()));
  const double scale = limit / (s.norm + 1e-6);
  s.gradient_scale = static_cast<float>(scale > 1.0 ? 1.0 : scale);
}

// The norm of all gradients together.
class GradientNorm {
 public:
  // A range of the gradient of tensor number `tensor`, in the chunk of rank `rank`.
  struct Range {
    std::size_t tensor, begin, count;
    int rank;
  };
  // `ranges` are sorted by rank. If they are only this rank's, `is_exchanged` is true: the sums
  // are then averaged over the ranks after queue_squares.
  GradientNorm(std::vector<Range> ranges, int ranks, bool is_exchanged, const Stream& stream);

  // Queues work that writes squares().
  void queue_squares(std::span<const UpdateTensors> tensors, const Stream& stream) const;
  // For each rank, the sum of its chunks' squares divided by the number of ranks, in the
  // device's memory.
  std::span<double> squares() const {
    return {levels_.back().sums.data(), levels_.back().sums.size()};
  }

 private:
  // Sums of squares, and where each rank's begin among them; then where the last one's end.
  struct Sums {
    Sums(std::span<const std::size_t> counts, const Stream& stream);
    Buffer<std::size_t> first;
    Buffer<double> sums;
  };

  std::vector<Range> ranges_;
  double factor_;
  std::vector<Sums> levels_;  // of blocks (on a GPU, of threads and of blocks), then of ranks
};

}  // namespace dist
