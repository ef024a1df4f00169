// What this file adds: softmax cross entropy over a batch, and its gradient.
// Look at: SoftmaxCrossEntropy in loss.cpp.
#pragma once

#include "04_distributed_sampler/batch.hpp"
#include "common/buffer.hpp"
#include "common/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dist {

// Softmax and cross entropy, forward and backward together. For each row of `logits`, whose
// shape is (rows, classes):
//   losses[r]       = -log softmax(logits[r])[targets[r]]
//   gradient[r][c]  = (softmax(logits[r])[c] - (c == targets[r])) * scale
// If `scale` is 1 / rows, `gradient` is the gradient of the mean loss.
void softmax_cross_entropy(const Stream& stream, std::size_t rows, std::size_t classes,
                           const float* logits, const std::int32_t* targets, float* losses,
                           float* gradient, float scale);

// The same for a batch that is one of several parts of a step, followed by:
//   *part       = 0 if this is the first part, else one more than before
//   means[part] = the mean of `losses`, added up in double, from the first to the last
//   numbers[0]  = the mean of means[0] to means[part], and numbers[1] = *stop
// `stop` is in pinned host memory, and `blocks_done` is as in parallel_for_then. The device
// counts the parts, so that all those between the first and the last queue the same work
// (StepGraph).
struct StepLoss {
  bool is_first;
  std::size_t* part;
  double* means;
  double* numbers;
  const double* stop;
  unsigned* blocks_done;
};
void softmax_cross_entropy(const Stream& stream, std::size_t rows, std::size_t classes,
                           const float* logits, const std::int32_t* targets, float* losses,
                           float* gradient, float scale, const StepLoss& step);

// Two numbers of a step, which the ranks average: its mean loss, and 1 if a rank was asked to
// stop.
struct StepNumbers {
  explicit StepNumbers(Device device) : mean(2, device), stop(1, device, Memory::pinned) {}
  Buffer<double> mean;  // on the device: written by the loss, then averaged
  Buffer<double> stop;  // on the host, which may write it at any time
};

// torch.nn.CrossEntropyLoss: the mean over this rank's batch. Reuses its memory in later steps.
class CrossEntropyLoss {
 public:
  CrossEntropyLoss() = default;
  // Writes every step's loss to `numbers`, which must outlive this object. The gradient is that
  // of loss / divisor: with the number of ranks, the sum of all ranks' gradients is their mean.
  explicit CrossEntropyLoss(const StepNumbers& numbers, int divisor = 1)
      : numbers_(&numbers), divisor_(static_cast<std::size_t>(divisor)) {}

  // `logits` has the shape (rows, classes) and `targets` (rows), both in the same device's
  // memory. Computes the loss and its gradient together.
  void forward(const Tensor& logits, std::span<const std::int32_t> targets,
               const Stream& stream);
  // The same for a loader's batch, which may be one of several parts of a step. The gradient is
  // then that of loss / parts. Only queues work, which may be repeated (StepGraph).
  void forward(const Tensor& logits, const Batch& batch, const Stream& stream);

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
  // Makes losses_ and grad_ views of memory for `rows` rows.
  void make_room(std::size_t rows, std::size_t classes, Device device);

  const StepNumbers* numbers_ = nullptr;
  std::optional<StepNumbers> own_numbers_{};  // if the constructor got none
  std::size_t divisor_ = 1;
  Tensor memory_;  // large enough for the largest batch so far
  Tensor losses_;  // (rows)
  Tensor grad_;
  Buffer<double> means_;
  // Captured steps (StepGraph) still use the memory of smaller batches, and of steps in fewer
  // parts.
  std::vector<Tensor> outgrown_;
  std::vector<Buffer<double>> outgrown_means_;
  Buffer<unsigned> blocks_done_;  // one element (parallel_for_then)
  Buffer<std::size_t> part_;      // likewise (StepLoss)
  Batch::Place place_;
};

}  // namespace dist
