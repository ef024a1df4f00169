// What this file adds: softmax cross entropy over a batch, and counting right answers.
#pragma once

#include "04_distributed_sampler/batch.hpp"
#include "common/buffer.hpp"
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
  // The same for a batch of a loader, which knows what part of a step it is. The step's mean
  // losses stay on the device, so that nobody needs to wait for them.
  void forward(const Tensor& logits, const Batch& batch, const Stream& stream);

  // (rows, classes), valid until the next forward.
  const Tensor& grad() const { return grad_; }
  // The mean loss of the last forward; waits for it.
  double value(const Stream& stream) const;

  // Of the step so far: the mean loss of each of its batches, in the device's memory.
  std::span<const double> means() const { return {means_.data(), place_.part + 1}; }
  // How many samples it took, what was waited for them, and whether the epoch ends with it.
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

// How many rows of logits (rows, classes) are largest at their target; waits for the result.
std::size_t correct_answers(const Tensor& logits, std::span<const std::int32_t> targets,
                            const Stream& stream);

}  // namespace dist
