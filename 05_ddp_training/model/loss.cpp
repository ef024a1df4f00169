#include "05_ddp_training/model/loss.hpp"

#include "05_ddp_training/model/parallel_for.hpp"

#include <cmath>
#include <utility>

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

// Runs once for all rows, because a batch has few. The device counts the parts of a step, so
// that all those between the first and the last queue the same work (StepGraph).
struct SumUp {
  std::size_t rows;
  const float* losses;
  bool is_first;
  std::size_t* part;
  double* means;       // of each part
  double* numbers;     // StepNumbers::mean, or null
  const double* stop;  // StepNumbers::stop
  DIST_HOST_DEVICE void operator()() const {
    double sum = 0.0;
    for (std::size_t r = 0; r < rows; ++r) sum += static_cast<double>(losses[r]);
    *part = is_first ? 0 : *part + 1;
    means[*part] = sum / static_cast<double>(rows);
    if (numbers == nullptr) return;
    const auto parts = static_cast<double>(*part + 1);
    double mean = 0.0;
    for (std::size_t p = 0; p <= *part; ++p) mean += means[p] / parts;
    numbers[0] = mean;
    numbers[1] = *stop;
  }
};

}  // namespace

void CrossEntropyLoss::forward(const Tensor& logits, const Batch& batch, const Stream& stream) {
  place_ = batch.place;
  const std::size_t rows = logits.dim(0);
  const std::size_t classes = logits.dim(1);
  const Device device = stream.device();
  if (memory_.numel() < rows * (classes + 1)) {
    if (!device.is_cpu()) outgrown_.push_back(memory_);
    memory_ = Tensor({rows * (classes + 1)}, device);
  }
  if (means_.size() < place_.parts) {
    outgrown_means_.push_back(std::exchange(means_, {place_.parts, device}));
  }
  if (part_.size() == 0) {
    blocks_done_ = Buffer<unsigned>(1, device);
    part_ = Buffer<std::size_t>(1, device);
  }
  float* const losses = memory_.data();
  grad_ = memory_.narrow(rows, rows * classes).view({rows, classes});
  const float scale = 1.0F / static_cast<float>(rows * place_.accumulate * divisor_);
  parallel_for(stream, rows,
               SoftmaxCrossEntropy{classes, scale, logits.data(), batch.targets.data(), losses,
                                   grad_.data()},
               blocks_done_.data(),
               SumUp{.rows = rows,
                     .losses = losses,
                     .is_first = place_.part == 0,
                     .part = part_.data(),
                     .means = means_.data(),
                     .numbers = numbers().data(),
                     .stop = numbers_ == nullptr ? nullptr : numbers_->stop.data()});
}

double CrossEntropyLoss::value(const Stream& stream) const {
  double mean = 0;
  copy_bytes(stream, &mean, &means().back(), sizeof mean);
  stream.synchronize();
  return mean;
}

}  // namespace dist
