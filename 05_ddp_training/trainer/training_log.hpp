// What a run says while it trains: a row per step, a line per epoch.
#pragma once

#include "05_ddp_training/trainer/metrics_file.hpp"
#include "05_ddp_training/trainer/progress_bar.hpp"
#include "05_ddp_training/trainer/training_options.hpp"
#include "common/console.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace dist {

class TrainingLog {
 public:
  // `console` must outlive the log. The run begins after `steps_before` steps of an earlier one
  // and ends after `total_steps`. Opens --metrics on the process that speaks; throws Error if
  // it cannot.
  TrainingLog(const Console& console, const TrainingOptions& options, std::size_t steps_before,
              std::size_t total_steps);

  // One row: the loss before the step, averaged over ranks, and the learning rate it took. A
  // step that was skipped names the parameter whose gradient was not finite.
  void step(std::size_t epoch, double loss, double lr, const std::string& not_finite);
  // After each epoch. No accuracy for data without a test set.
  void epoch(std::size_t epoch, std::optional<double> test_accuracy);
  // Instead, when nothing was trained.
  void tested(std::optional<double> test_accuracy);
  // The run ends before its end because it was asked to; `checkpoint` holds it.
  void stopped(const std::string& checkpoint);

  // Why --metrics does not hold every step; empty if it does.
  std::string problem() const { return metrics_ ? metrics_->problem() : ""; }

  // Told of so far, an earlier run's steps included.
  std::size_t steps() const { return steps_; }
  std::size_t skipped() const { return skipped_; }

 private:
  const Console& console_;
  std::size_t steps_;
  std::size_t total_steps_;
  std::optional<MetricsFile> metrics_;
  ProgressBar progress_;
  double epoch_loss_ = 0;
  std::size_t epoch_steps_ = 0;
  std::size_t skipped_ = 0;
};

}  // namespace dist
