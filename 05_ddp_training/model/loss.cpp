#include "05_ddp_training/model/loss.hpp"

#include "05_ddp_training/model/parallel_for.hpp"

#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

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
  StepLoss step;
  DIST_HOST_DEVICE void operator()() const {
    double sum = 0.0;
    for (std::size_t r = 0; r < rows; ++r) sum += static_cast<double>(losses[r]);
    const std::size_t part = step.is_first ? 0 : *step.part + 1;
    *step.part = part;
    step.means[part] = sum / static_cast<double>(rows);
    const auto parts = static_cast<double>(part + 1);
    double mean = 0.0;
    for (std::size_t p = 0; p <= part; ++p) mean += step.means[p] / parts;
    step.numbers[0] = mean;
    step.numbers[1] = *step.stop;
  }
};

}  // namespace

void softmax_cross_entropy(const Stream& stream, std::size_t rows, std::size_t classes,
                           const float* logits, const std::int32_t* targets, float* losses,
                           float* gradient, float scale) {
  parallel_for(stream, rows,
               SoftmaxCrossEntropy{classes, scale, logits, targets, losses, gradient});
}

void softmax_cross_entropy(const Stream& stream, std::size_t rows, std::size_t classes,
                           const float* logits, const std::int32_t* targets, float* losses,
                           float* gradient, float scale, const StepLoss& step) {
  parallel_for_then(stream, rows,
                    SoftmaxCrossEntropy{classes, scale, logits, targets, losses, gradient},
                    SumUp{rows, losses, step}, step.blocks_done);
}

void CrossEntropyLoss::make_room(std::size_t rows, std::size_t classes, Device device) {
  if (memory_.numel() < rows * (classes + 1)) {
    if (!device.is_cpu()) outgrown_.push_back(memory_);
    memory_ = Tensor({rows * (classes + 1)}, device);
  }
  losses_ = memory_.narrow(0, rows);
  grad_ = memory_.narrow(rows, rows * classes).view({rows, classes});
}

void CrossEntropyLoss::forward(const Tensor& logits, std::span<const std::int32_t> targets,
                               const Stream& stream) {
  const std::size_t rows = logits.dim(0);
  make_room(rows, logits.dim(1), stream.device());
  softmax_cross_entropy(stream, rows, logits.dim(1), logits.data(), targets.data(),
                        losses_.data(), grad_.data(),
                        1.0F / static_cast<float>(rows * divisor_));
}

void CrossEntropyLoss::forward(const Tensor& logits, const Batch& batch, const Stream& stream) {
  place_ = batch.place;
  const std::size_t rows = logits.dim(0);
  make_room(rows, logits.dim(1), stream.device());
  if (means_.size() < place_.parts) {
    outgrown_means_.push_back(std::exchange(means_, {place_.parts, stream.device()}));
  }
  if (blocks_done_.size() == 0) {
    blocks_done_ = Buffer<unsigned>(1, stream.device());
    part_ = Buffer<std::size_t>(1, stream.device());
  }
  if (numbers_ == nullptr) numbers_ = &own_numbers_.emplace(stream.device());
  softmax_cross_entropy(stream, rows, logits.dim(1), logits.data(), batch.targets.data(),
                        losses_.data(), grad_.data(),
                        1.0F / static_cast<float>(rows * place_.accumulate * divisor_),
                        {.is_first = place_.part == 0,
                         .part = part_.data(),
                         .means = means_.data(),
                         .numbers = numbers_->mean.data(),
                         .stop = numbers_->stop.data(),
                         .blocks_done = blocks_done_.data()});
}

double CrossEntropyLoss::value(const Stream& stream) const {
  const std::vector<float> losses = to_host(stream, losses_);
  return std::accumulate(losses.begin(), losses.end(), 0.0) /
         static_cast<double>(losses.size());
}

}  // namespace dist
