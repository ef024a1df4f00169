#include "05_ddp_training/trainer/training_log.hpp"

#include "01_send_recv/measure.hpp"
#include "05_ddp_training/trainer/memory_use.hpp"
#include "common/check.hpp"
#include "common/hash.hpp"
#include "common/host_copy.hpp"
#include "common/json.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace dist {
namespace {

// The first steps allocate memory and warm caches up; what remains of a short run is half of
// it.
std::size_t steps_left_out(std::size_t steps) {
  return std::min<std::size_t>(5, steps / 2);
}

// The median of one part of the time.
template <class Part>
double median_of(const std::vector<StepTimes>& steps, Part part) {
  std::vector<double> values;
  for (std::size_t i = steps_left_out(steps.size()); i < steps.size(); ++i) {
    values.push_back(std::invoke(part, steps[i]));
  }
  return median(std::move(values));
}

double milliseconds(std::chrono::steady_clock::time_point begin,
                    std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

// NaN if nobody knows how long communication took.
double hidden_fraction(const StepTimes& times) {
  if (!std::isfinite(times.communication)) return times.communication;
  if (times.communication <= 0) return 0;
  return std::max(0.0, 1.0 - times.exposed / times.communication);
}

std::string communication_line(const StepTimes& times, double hidden, const std::string& how) {
  if (!std::isfinite(times.communication)) {
    return fmt::format("communication: how much of it was hidden, nobody can see ({})", how);
  }
  std::string text = fmt::format("communication: {:.2f} ms per step, {:.0f} % of it hidden",
                                 times.communication, 100 * hidden);
  if (hidden > 0 && times.hideable > 0) {
    const double best = times.hideable / times.communication;
    text += fmt::format(", {:.0f} % of what could be", 100 * std::min(1.0, hidden / best));
  }
  return text + fmt::format(" ({})", how);
}

// Communication that is no message has been seen by nobody.
std::string traffic_line(const RunDescription& run) {
  constexpr double kMiB = 1024.0 * 1024.0;
  const std::string least =
      fmt::format("{:.2f} MiB is the least that a rank must send", run.least_bytes / kMiB);
  if (!run.bytes_sent)
    return fmt::format("traffic: {} per step (not counted: no messages)", least);
  return fmt::format("traffic: {:.2f} MiB sent per rank and step; {}",
                     static_cast<double>(*run.bytes_sent) / kMiB, least);
}

Json nullable(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

}  // namespace

TrainingLog::TrainingLog(const Console& console, const TrainingOptions& options,
                         std::size_t steps_before, std::size_t total_steps)
    : console_(console),
      options_(options),
      steps_before_(steps_before),
      total_steps_(total_steps),
      progress_(console, "steps", total_steps - steps_before) {
  if (!options.metrics.empty() && console.speaks()) {
    metrics_.emplace(options.metrics, steps_before);
  }
  start_clock();
}

void TrainingLog::start_clock() {
  last_ = batch_asked_ = std::chrono::steady_clock::now();
  data_ms_ = 0;
}

void TrainingLog::batch_is_here() {
  data_ms_ += milliseconds(batch_asked_, std::chrono::steady_clock::now());
}

void TrainingLog::more_is_wanted() {
  batch_asked_ = std::chrono::steady_clock::now();
}

void TrainingLog::gradients_are_here(const Stream& stream) {
  gradients_ = stream.record_event();
}

void TrainingLog::step(std::size_t epoch, double loss, double lr, std::size_t samples,
                       StepTimes times, const Stream& stream, const std::string& not_finite) {
  const Event updated = stream.record_event();
  stream.synchronize();
  if (gradients_) times.optimizer = elapsed_ms(*gradients_, updated);
  const auto now = std::chrono::steady_clock::now();
  times.step = milliseconds(last_, now);
  times.data = std::exchange(data_ms_, 0.0);
  times_.push_back(times);
  // The first all-reduce has touched what the ranks share; only from there on can it be told
  // apart from the peak (MemoryUse::peak_share).
  if (times_.size() == 1) restart_peak();
  last_ = batch_asked_ = now;
  samples_.push_back(samples);
  epoch_loss_ += loss;
  ++epoch_steps_;
  progress_.advance();
  if (!not_finite.empty()) {
    ++skipped_;
    progress_.clear();
    console_.line(
        fmt::format("  step {}: skipped on all ranks, the gradient of {} is not finite",
                    steps() - 1, not_finite));
  }
  if (!console_.speaks() || (!console_.json() && !metrics_)) return;
  Json row{{"step", steps() - 1},
           {"epoch", epoch},
           {"loss", significant(loss)},
           {"lr", significant(lr)}};
  if (!not_finite.empty()) row["skipped"] = not_finite;
  console_.row(row);
  if (metrics_) metrics_->append(row);
}

void TrainingLog::epoch(std::size_t epoch, std::optional<double> test_accuracy) {
  test_accuracy_ = test_accuracy;
  const double mean_loss =
      epoch_loss_ / static_cast<double>(std::max<std::size_t>(1, epoch_steps_));
  progress_.clear();
  console_.line(fmt::format(
      "  epoch {}  step {:4}/{}  loss {:.4f}{}", epoch + 1, steps(), total_steps_, mean_loss,
      test_accuracy ? fmt::format("  test accuracy {:.2f} %", 100 * *test_accuracy) : ""));
  epoch_loss_ = 0;
  epoch_steps_ = 0;
}

void TrainingLog::tested(std::optional<double> test_accuracy) {
  test_accuracy_ = test_accuracy;
  if (test_accuracy) {
    console_.line(fmt::format("  test accuracy {:.2f} %", 100 * *test_accuracy));
  }
}

void TrainingLog::stopped(const std::string& checkpoint) {
  progress_.clear();
  console_.line(fmt::format("stopped after step {} of {}, as asked; --resume goes on from {}",
                            steps(), total_steps_, checkpoint));
  console_.row({{"stopped", true}, {"steps", steps()}, {"checkpoint", checkpoint}});
}

bool TrainingLog::checkpoint_due() const {
  return options_.checkpoint_every > 0 && steps() % options_.checkpoint_every == 0;
}

bool TrainingLog::summary(const RunDescription& run, std::span<const Parameter> parameters,
                          bool replicas_identical, const Stream& stream) {
  bool finite = true;
  Json described = Json::object();
  for (const Parameter& parameter : parameters) {
    described[parameter.name] =
        read_on_host(stream, parameter.value, [&](std::span<const float> values) -> Json {
          double squares = 0;
          for (const float value : values) squares += static_cast<double>(value) * value;
          finite = finite && std::isfinite(squares);
          Json first8 = Json::array();
          for (const float value : values.first(std::min<std::size_t>(8, values.size()))) {
            first8.push_back(significant(value));
          }
          return {{"l2", significant(std::sqrt(squares))},
                  {"first8", first8},
                  {"sha256", sha256(values)}};
        });
  }
  const StepTimes typical{.step = median_of(times_, &StepTimes::step),
                          .data = median_of(times_, &StepTimes::data),
                          .communication = median_of(times_, &StepTimes::communication),
                          .exposed = median_of(times_, &StepTimes::exposed),
                          .hideable = median_of(times_, &StepTimes::hideable),
                          .optimizer = median_of(times_, &StepTimes::optimizer)};
  double seconds = 0;
  double samples = 0;
  for (std::size_t i = steps_left_out(times_.size()); i < times_.size(); ++i) {
    seconds += 1e-3 * times_[i].step;
    samples += static_cast<double>(samples_[i]);
  }
  const double samples_per_second = seconds > 0 ? samples / seconds : 0.0;
  const double hidden = hidden_fraction(typical);

  if (skipped_ > 0) {
    console_.line(fmt::format("{} steps were skipped: a gradient was not finite", skipped_));
  }
  if (!times_.empty()) {
    console_.line(fmt::format(
        "one step: {:.2f} ms = data {:.2f} + compute {:.2f} + exposed communication {:.2f} + "
        "optimizer {:.2f}",
        typical.step, typical.data, typical.compute(), typical.exposed, typical.optimizer));
    if (run.ranks > 1) {
      console_.line(communication_line(typical, hidden, run.overlap));
      console_.line(traffic_line(run));
    }
    console_.line(fmt::format("{:.0f} samples per second", samples_per_second));
    console_.line(describe(run.memory, run.device));
  }
  console_.row({{"final", true},
                {"steps", steps()},
                {"skipped_steps", skipped_},
                {"parameters", described},
                {"replicas_identical", replicas_identical},
                {"test_accuracy", test_accuracy_ ? Json(*test_accuracy_) : Json()},
                {"samples_per_second", significant(samples_per_second)},
                {"step_ms", significant(typical.step)},
                {"data_ms", significant(typical.data)},
                {"compute_ms", significant(typical.compute())},
                {"comm_ms", significant(typical.communication)},
                {"exposed_comm_ms", significant(typical.exposed)},
                {"hideable_comm_ms", significant(typical.hideable)},
                {"hidden", significant(hidden)},
                {"optimizer_ms", significant(typical.optimizer)},
                {"bytes_sent_per_step", run.bytes_sent ? Json(*run.bytes_sent) : Json()},
                {"least_bytes_per_step", significant(run.least_bytes)},
                {"memory", json_of(run.memory)},
                {"device", run.device},
                {"backend", nullable(run.backend)},
                {"algorithm", nullable(run.algorithm)},
                {"ranks", run.ranks}});
  return finite;
}

}  // namespace dist
