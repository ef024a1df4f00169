// What this file adds: softmax cross entropy over a batch, and its gradient.
// Look at: SoftmaxCrossEntropy in loss.cpp.
#pragma once

#include "04_distributed_sampler/batch.hpp"
#include "common/buffer.hpp"
#include "common/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dist {

// Two numbers of a step, which the ranks average: its mean loss, and 1 if a rank was asked to
// stop.
struct StepNumbers {
  explicit StepNumbers(Device device) : mean(2, device), stop(1, device, Memory::pinned) {}
  Buffer<double> mean;  // on the device: written by the loss, then averaged
  Buffer<double> stop;  // on the host, which may write it at any time
};

// torch.nn.CrossEntropyLoss: softmax and cross entropy, and the mean over this rank's batch:
//   losses[r]   = -log softmax(logits[r])[targets[r]]
//   grad[r][c]  = (softmax(logits[r])[c] - (c == targets[r])) / rows
// Reuses its memory in later steps.
class CrossEntropyLoss {
 public:
  CrossEntropyLoss() = default;
  // Writes every step's numbers to `numbers`, which must outlive this object. The gradient is
  // that of loss / divisor: with the number of ranks, the sum of all ranks' gradients is their
  // mean.
  explicit CrossEntropyLoss(const StepNumbers& numbers, int divisor = 1)
      : numbers_(&numbers), divisor_(static_cast<std::size_t>(divisor)) {}

  // Computes the loss of `logits`, whose shape is (rows, classes), and its gradient together.
  // If the batch is one of several parts of a step, the gradient is that of loss / parts. Only
  // queues work, which may be repeated (StepGraph).
  void forward(const Tensor& logits, const Batch& batch, const Stream& stream);
  // The same for `targets` of shape (rows), in the device's memory, as a whole step.
  void forward(const Tensor& logits, std::span<const std::int32_t> targets,
               const Stream& stream) {
    forward(logits, Batch{{}, targets}, stream);
  }

  // The gradient, with shape (rows, classes), valid until the next forward.
  const Tensor& grad() const { return grad_; }
  // The mean loss of the last forward. Waits for the result.
  double value(const Stream& stream) const;

  // The place of the last batch in its step.
  const Batch::Place& place() const { return place_; }
  // The mean loss of each batch of the step so far, in the device's memory.
  std::span<const double> means() const { return {means_.data(), place_.part + 1}; }
  // StepNumbers::mean, or empty.
  std::span<double> numbers() const {
    return numbers_ == nullptr ? std::span<double>() : std::span(numbers_->mean.data(), 2);
  }

 private:
  const StepNumbers* numbers_ = nullptr;
  std::size_t divisor_ = 1;
  Tensor memory_;  // of losses and gradient, large enough for the largest batch so far
  Tensor grad_;
  Buffer<double> means_;
  // Captured steps (StepGraph) still use the memory of smaller batches, and of steps in fewer
  // parts.
  std::vector<Tensor> outgrown_;
  std::vector<Buffer<double>> outgrown_means_;
  // On the device, one element each: see parallel_for and SumUp.
  Buffer<unsigned> blocks_done_;
  Buffer<std::size_t> part_;
  Batch::Place place_;
};

}  // namespace dist
