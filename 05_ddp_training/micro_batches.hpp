// Which batches make one optimizer step (--accumulate): a batch too large for the memory is
// taken in parts, whose gradients add up before one all-reduce.
#pragma once

#include <algorithm>
#include <cstddef>

namespace dist {

// Counts the batches of one epoch. The epoch's last step may have fewer parts than the others.
class MicroBatches {
 public:
  MicroBatches(std::size_t batches, std::size_t per_step)
      : left_(batches), per_step_(per_step) {}

  // The next part, of so many rows.
  void begin(std::size_t rows) {
    if (part_ == parts_) {
      parts_ = std::min(left_, per_step_);
      part_ = 0;
      rows_ = 0;
      loss_ = 0;
    }
    ++part_;
    --left_;
    rows_ += rows;
  }
  // Whether it is the step's last, and into how many the step is divided.
  bool is_last() const { return part_ == parts_; }
  std::size_t parts() const { return parts_; }
  // Its mean loss, when that is known.
  void add_loss(double loss) { loss_ += loss / static_cast<double>(parts_); }

  // Of the whole step, after its last part.
  double mean_loss() const { return loss_; }
  std::size_t rows() const { return rows_; }
  bool epoch_is_done() const { return left_ == 0; }

 private:
  std::size_t left_;  // batches of the epoch
  std::size_t per_step_;
  std::size_t parts_ = 0;
  std::size_t part_ = 0;  // the current one, from 1
  std::size_t rows_ = 0;
  double loss_ = 0;
};

}  // namespace dist
