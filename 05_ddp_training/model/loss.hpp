// What this file adds: softmax cross entropy over a batch, and its gradient.
// Look at: SoftmaxCrossEntropy in loss.cpp.
#pragma once

#include "04_distributed_sampler/batch_plan.hpp"
#include "common/buffer.hpp"
#include "common/tensor.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace dist {

// torch.nn.CrossEntropyLoss: softmax and cross entropy, and the mean over this rank's batch:
//   losses[r]   = -log softmax(logits[r])[targets[r]]
//   grad[r][c]  = (softmax(logits[r])[c] - (c == targets[r])) / rows
// Reuses its memory in later steps.
class CrossEntropyLoss {
 public:
  // From now on, value() is at `value`, in the device's memory.
  void write_to(double* value) { value_ = value; }

  // Computes the loss of `logits`, whose shape is (rows, classes), and its gradient together.
  // If a step accumulates the gradients of several batches, each batch's loss and gradient are
  // divided by their number, and the losses add up, too. Only queues work, which may be
  // repeated (StepGraph).
  void forward(const Tensor& logits, const Batch& batch, const Stream& stream);
  // The same for `targets` of shape (rows), in the device's memory, as a whole step.
  void forward(const Tensor& logits, std::span<const std::int32_t> targets,
               const Stream& stream) {
    forward(logits, Batch{{}, targets}, stream);
  }

  // The gradient, with shape (rows, classes), valid until the next forward.
  const Tensor& grad() const { return grad_; }
  // The loss of this rank's samples. Waits for the result.
  double value(const Stream& stream) const;

 private:
  double* value_ = nullptr;
  Tensor memory_;  // of losses and gradient, large enough for the largest batch so far
  Tensor grad_;
  std::vector<Tensor> outgrown_;  // captured steps (StepGraph) still use that of smaller ones
  // On the device, one element each: a value for which no place was given, and see
  // parallel_for.
  Buffer<double> own_value_;
  Buffer<unsigned> blocks_done_;
};

}  // namespace dist
