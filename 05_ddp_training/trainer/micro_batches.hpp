// Which batches make one optimizer step: a batch too large for the memory is taken in parts,
// whose gradients add up before one all-reduce (--accumulate); a process that plays several
// ranks takes one of each (--deterministic).
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace dist {

// Counts the batches of one epoch. The epoch's last step may have fewer parts than the others.
class MicroBatches {
 public:
  // `batches` divide into those of the `ranks` that this process plays; `per_step` are of one.
  explicit MicroBatches(std::size_t batches, std::size_t per_step = 1, std::size_t ranks = 1)
      : left_(batches), per_step_(per_step * ranks), ranks_(ranks) {}

  // The next batch, of so many rows.
  void begin(std::size_t rows) {
    if (part_ == in_step_) {
      in_step_ = std::min(left_, per_step_);
      part_ = 0;
      rows_ = 0;
      losses_.clear();
    }
    ++part_;
    --left_;
    rows_ += rows;
  }
  // Whether it is the step's last, and into how many parts each rank's batch is divided.
  bool is_last() const { return part_ == in_step_; }
  std::size_t parts() const { return in_step_ / ranks_; }
  // Its mean loss, when that is known.
  void add_loss(double loss) { losses_.push_back(loss); }

  // Of the whole step, after its last batch.
  double mean_loss() const {
    double mean = 0;
    for (const double loss : losses_) mean += loss / static_cast<double>(in_step_);
    return mean;
  }
  std::span<const double> losses() const { return losses_; }
  std::size_t rows() const { return rows_; }
  bool epoch_is_done() const { return left_ == 0; }

 private:
  std::size_t left_;      // batches of the epoch
  std::size_t per_step_;  // batches, but in the last step
  std::size_t ranks_;
  std::size_t in_step_ = 0;  // batches of the current step
  std::size_t part_ = 0;     // the current one, from 1
  std::size_t rows_ = 0;
  std::vector<double> losses_;
};

}  // namespace dist
