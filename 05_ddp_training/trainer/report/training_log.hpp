// What a run prints while it trains: a JSON row per step, or a line per epoch.
#pragma once

#include "05_ddp_training/trainer/options/training_options.hpp"
#include "05_ddp_training/trainer/report/metrics_file.hpp"
#include "05_ddp_training/trainer/report/progress_bar.hpp"
#include "common/console.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace dist {

class TrainingLog {
 public:
  // `console` must outlive the log. The run continues an earlier run after `steps_before` steps
  // and ends after `total_steps`. Opens --metrics on the process that prints, or throws Error.
  TrainingLog(const Console& console, const TrainingOptions& options, std::size_t steps_before,
              std::size_t total_steps);

  // Prints one row: the loss before the step, averaged over ranks, and the step's learning
  // rate. For a skipped step, `not_finite` names the parameter whose gradient was not finite.
  // `norm` is that of the gradients before they were clipped, if they are.
  void step(std::size_t epoch, double loss, double lr, const std::string& not_finite,
            std::optional<double> norm);
  // Called after each epoch. The accuracy is unset for data without a test set.
  void epoch(std::size_t epoch, std::optional<double> test_accuracy);
  // Called instead of step() and epoch() if nothing was trained.
  void tested(std::optional<double> test_accuracy);
  // Called if the run stops early on request; `checkpoint` is the file to resume from.
  void stopped(const std::string& checkpoint);

  // Why the --metrics file lacks steps; empty if it has all steps.
  std::string problem() const { return metrics_ ? metrics_->problem() : ""; }

  // The number of steps so far, including those of an earlier run.
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
