// What this file adds: softmax cross entropy over a batch, and counting right answers.
#pragma once

#include "common/tensor.hpp"

#include <cstdint>
#include <span>

namespace dist {

// torch.nn.CrossEntropyLoss: the mean over this rank's batch. Keeps its memory between steps.
class CrossEntropyLoss {
 public:
  // logits (rows, classes), targets (rows) in the same device's memory. Computes the loss and
  // its gradient at once; the gradient is of loss / parts, for one of several parts of a batch.
  void forward(const Tensor& logits, std::span<const std::int32_t> targets,
               const Stream& stream, std::size_t parts = 1);

  // (rows, classes), valid until the next forward.
  const Tensor& grad() const { return grad_; }
  // The mean loss of the last forward; waits for it.
  double value(const Stream& stream) const;

 private:
  Tensor memory_;  // large enough for the largest batch so far
  Tensor losses_;  // (rows)
  Tensor grad_;
};

// How many rows of logits (rows, classes) are largest at their target; waits for the result.
std::size_t correct_answers(const Tensor& logits, std::span<const std::int32_t> targets,
                            const Stream& stream);

}  // namespace dist
