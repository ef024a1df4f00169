#include "05_ddp_training/model/loss.hpp"

#include "05_ddp_training/model/parallel_for.hpp"

#include <cmath>
#include <cstddef>

namespace dist {
namespace {

struct SoftmaxCrossEntropy {
  std::size_t classes;
  float scale;
  const float* logits;
  const std::int32_t* targets;
  float* losses;
  float* gradient;
  DIST_HOST_DEVICE void operator()(std::size_t r) const {
    const float* row = logits + r * classes;
    // Subtract the largest logit, so that exp cannot overflow. It cancels out in the quotient.
    float largest = row[0];
    for (std::size_t c = 1; c < classes; ++c) largest = row[c] > largest ? row[c] : largest;
    float sum = 0.0F;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(row[c] - largest);
    const float log_sum = std::log(sum);
    const auto target = static_cast<std::size_t>(targets[r]);
    losses[r] = log_sum - (row[target] - largest);
    for (std::size_t c = 0; c < classes; ++c) {
      const float probability = std::exp((row[c] - largest) - log_sum);
      gradient[r * classes + c] = (probability - (c == target ? 1.0F : 0.0F)) * scale;
    }
  }
};

// Runs once for all rows, because a batch has few.
struct SumUp {
  std::size_t rows;
  const float* losses;
  double batches;  // that the step accumulates
  bool is_first;   // of them
  double* value;
  DIST_HOST_DEVICE void operator()() const {
    double sum = 0.0;
    for (std::size_t r = 0; r < rows; ++r) sum += static_cast<double>(losses[r]);
    const double mean = sum / static_cast<double>(rows);
    *value = (is_first ? 0.0 : *value) + mean / batches;
  }
};

}  // namespace

void CrossEntropyLoss::forward(const Tensor& logits, const Batch& batch, const Stream& stream) {
  const std::size_t rows = logits.dim(0);
  const std::size_t classes = logits.dim(1);
  const Device device = stream.device();
  if (memory_.numel() < rows * (classes + 1)) {
    if (!device.is_cpu()) outgrown_.push_back(memory_);
    memory_ = Tensor({rows * (classes + 1)}, device);
  }
  if (blocks_done_.size() == 0) blocks_done_ = {1, device};
  if (value_ == nullptr) {
    own_value_ = {1, device};
    value_ = own_value_.data();
  }
  const std::size_t batches = batch.place.accumulate;
  float* const losses = memory_.data();
  grad_ = memory_.narrow(rows, rows * classes).view({rows, classes});
  const float scale = 1.0F / static_cast<float>(rows * batches);
  parallel_for(stream, rows,
               SoftmaxCrossEntropy{classes, scale, logits.data(), batch.targets.data(), losses,
                                   grad_.data()},
               blocks_done_.data(),
               SumUp{.rows = rows,
                     .losses = losses,
                     .batches = static_cast<double>(batches),
                     .is_first = batch.place.part % batches == 0,
                     .value = value_});
}

double CrossEntropyLoss::value(const Stream& stream) const {
  double value = 0;
  copy_bytes(stream, &value, value_, sizeof value);
  stream.synchronize();
  return value;
}

}  // namespace dist
