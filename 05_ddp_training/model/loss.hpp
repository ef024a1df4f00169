// What this file adds: softmax cross entropy over a batch, and a count of correct predictions.
#pragma once

#include "04_distributed_sampler/batch.hpp"
#include "common/buffer.hpp"
#include "common/tensor.hpp"

#include <cstdint>
#include <span>

namespace dist {

// torch.nn.CrossEntropyLoss: the mean over this rank's batch. Reuses its memory in later steps.
class CrossEntropyLoss {
 public:
  // `logits` has the shape (rows, classes) and `targets` (rows), both in the same device's
  // memory. Computes the loss and its gradient together. If the batch is one of several parts
  // of a step, the gradient is that of loss / parts.
  void forward(const Tensor& logits, std::span<const std::int32_t> targets,
               const Stream& stream, std::size_t parts = 1);
  // The same for a loader's batch, which knows which part of a step it is. The step's mean
  // losses stay on the device, so this function does not wait.
  void forward(const Tensor& logits, const Batch& batch, const Stream& stream);

  // The gradient, with shape (rows, classes), valid until the next forward.
  const Tensor& grad() const { return grad_; }
  // The mean loss of the last forward. Waits for the result.
  double value(const Stream& stream) const;

  // The mean loss of each batch of the step so far, in the device's memory.
  std::span<const double> means() const { return {means_.data(), place_.part + 1}; }
  // The step's number of samples, the time spent waiting for them, and whether the step ends
  // the epoch.
  std::size_t samples() const { return samples_; }
  double waited_ms() const { return waited_ms_; }
  bool ends_epoch() const { return place_.ends_epoch; }

 private:
  Tensor memory_;  // large enough for the largest batch so far
  Tensor losses_;  // (rows)
  Tensor grad_;
  Buffer<double> means_;
  Batch::Place place_;
  std::size_t samples_ = 0;
  double waited_ms_ = 0;
};

// The number of rows of `logits` whose largest element is at the row's target. Waits for the
// result.
std::size_t correct_answers(const Tensor& logits, std::span<const std::int32_t> targets,
                            const Stream& stream);

}  // namespace dist
