#include "05_ddp_training/model/loss.hpp"

#include "05_ddp_training/model/kernels.hpp"

#include <numeric>
#include <utility>
#include <vector>

namespace dist {

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
