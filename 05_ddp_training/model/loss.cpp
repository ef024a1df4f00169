#include "05_ddp_training/model/loss.hpp"

#include "05_ddp_training/model/kernels.hpp"

#include <numeric>
#include <vector>

namespace dist {

void CrossEntropyLoss::forward(const Tensor& logits, std::span<const std::int32_t> targets,
                               const Stream& stream, std::size_t parts) {
  const std::size_t rows = logits.dim(0);
  const std::size_t classes = logits.dim(1);
  if (memory_.numel() < rows * (classes + 1)) {
    memory_ = Tensor({rows * (classes + 1)}, stream.device());
  }
  losses_ = memory_.narrow(0, rows);
  grad_ = memory_.narrow(rows, rows * classes).view({rows, classes});
  softmax_cross_entropy(stream, rows, classes, logits.data(), targets.data(), losses_.data(),
                        grad_.data(), 1.0F / static_cast<float>(rows * parts));
}

void CrossEntropyLoss::forward(const Tensor& logits, const Batch& batch, const Stream& stream) {
  place_ = batch.place;
  forward(logits, batch.targets, stream, place_.accumulate);
  if (place_.part == 0) {
    samples_ = 0;
    waited_ms_ = 0;
  }
  samples_ += batch.rows();
  waited_ms_ += batch.waited_ms;
  if (means_.size() < place_.parts) means_ = Buffer<double>(place_.parts, stream.device());
  mean(stream, batch.rows(), losses_.data(), means_.data() + place_.part);
}

double CrossEntropyLoss::value(const Stream& stream) const {
  const std::vector<float> losses = to_host(stream, losses_);
  return std::accumulate(losses.begin(), losses.end(), 0.0) /
         static_cast<double>(losses.size());
}

std::size_t correct_answers(const Tensor& logits, std::span<const std::int32_t> targets,
                            const Stream& stream) {
  const Tensor hits({logits.dim(0)}, stream.device());
  count_hits(stream, logits.dim(0), logits.dim(1), logits.data(), targets.data(), hits.data());
  const std::vector<float> on_host = to_host(stream, hits);
  return static_cast<std::size_t>(std::accumulate(on_host.begin(), on_host.end(), 0.0));
}

}  // namespace dist
