#include "05_ddp_training/trainer/report/training_log.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dist {

TrainingLog::TrainingLog(const Console& console, const TrainingOptions& options,
                         std::size_t steps_before, std::size_t total_steps)
    : console_(console),
      steps_(steps_before),
      total_steps_(total_steps),
      progress_(console, "steps", total_steps - steps_before) {
  if (!options.metrics.empty() && console.speaks()) {
    metrics_.emplace(options.metrics, steps_before);
  }
}

void TrainingLog::step(std::size_t epoch, double loss, double lr, const std::string& not_finite,
                       std::optional<double> norm) {
  const std::size_t number = steps_++;
  epoch_loss_ += loss;
  ++epoch_steps_;
  progress_.advance();
  if (!not_finite.empty()) {
    ++skipped_;
    progress_.clear();
    console_.line(
        fmt::format("  step {}: skipped on all ranks because the gradient of {} is not finite",
                    number, not_finite));
  }
  if (!console_.speaks() || (!console_.json() && !metrics_)) return;
  Json row{
      {"step", number}, {"epoch", epoch}, {"loss", significant(loss)}, {"lr", significant(lr)}};
  if (!not_finite.empty()) row["skipped"] = not_finite;
  if (norm) row["grad_norm"] = not_finite.empty() ? Json(significant(*norm)) : Json();
  console_.row(row);
  if (metrics_) metrics_->append(row);
}

void TrainingLog::epoch(std::size_t epoch, std::optional<double> test_accuracy) {
  const double mean_loss =
      epoch_loss_ / static_cast<double>(std::max<std::size_t>(1, epoch_steps_));
  progress_.clear();
  console_.line(fmt::format(
      "  epoch {}  step {:4}/{}  loss {:.4f}{}", epoch + 1, steps_, total_steps_, mean_loss,
      test_accuracy ? fmt::format("  test accuracy {:.2f} %", 100 * *test_accuracy) : ""));
  epoch_loss_ = 0;
  epoch_steps_ = 0;
}

void TrainingLog::tested(std::optional<double> test_accuracy) {
  if (test_accuracy) {
    console_.line(fmt::format("  test accuracy {:.2f} %", 100 * *test_accuracy));
  }
}

void TrainingLog::stopped(const std::string& checkpoint) {
  progress_.clear();
  console_.line(
      fmt::format("stopped after step {} of {}, as requested; --resume continues from {}",
                  steps_, total_steps_, checkpoint));
  console_.row({{"stopped", true}, {"steps", steps_}, {"checkpoint", checkpoint}});
}

}  // namespace dist
