#include "05_ddp_training/training_log.hpp"

#include "common/check.hpp"
#include "common/hash.hpp"
#include "common/measure.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dist {
namespace {

// The first steps allocate memory and warm caches up; what remains of a short run is half of
// it.
std::size_t steps_left_out(std::size_t steps) {
  return std::min<std::size_t>(5, steps / 2);
}

std::vector<double> steady(const std::vector<double>& values) {
  const auto begin = static_cast<std::ptrdiff_t>(steps_left_out(values.size()));
  return {values.begin() + begin, values.end()};
}

Json nullable(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

}  // namespace

TrainingLog::TrainingLog(const Console& console, const TrainingOptions& options,
                         std::size_t total_steps, std::size_t steps_per_epoch)
    : console_(console),
      options_(options),
      total_steps_(total_steps),
      progress_(console, fmt::format("{} steps per epoch", steps_per_epoch), total_steps) {
  if (!options.metrics.empty() && console.speaks()) {
    metrics_.open(options.metrics, std::ios::trunc);
    if (!metrics_) throw Error(fmt::format("--metrics: {} cannot be opened", options.metrics));
  }
  start_clock();
}

void TrainingLog::start_clock() {
  last_ = std::chrono::steady_clock::now();
}

void TrainingLog::step(std::size_t epoch, double loss, double lr, double communication_ms,
                       std::size_t samples) {
  const auto now = std::chrono::steady_clock::now();
  step_ms_.push_back(std::chrono::duration<double, std::milli>(now - last_).count());
  last_ = now;
  communication_ms_.push_back(communication_ms);
  samples_.push_back(samples);
  epoch_loss_ += loss;
  ++epoch_steps_;
  progress_.advance();
  if (!console_.speaks() || (!console_.json() && !metrics_.is_open())) return;
  const Json row{{"step", steps() - 1},
                 {"epoch", epoch},
                 {"loss", significant(loss)},
                 {"lr", significant(lr)}};
  console_.row(row);
  if (metrics_.is_open()) {
    metrics_ << row.dump() << '\n' << std::flush;
    if (!metrics_) throw Error(fmt::format("{}: cannot be written", options_.metrics));
  }
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

bool TrainingLog::checkpoint_due() const {
  return options_.checkpoint_every > 0 && steps() % options_.checkpoint_every == 0;
}

bool TrainingLog::summary(const RunDescription& run, std::span<const Parameter> parameters,
                          bool replicas_identical, const Stream& stream) {
  bool finite = true;
  Json described = Json::object();
  for (const Parameter& parameter : parameters) {
    const std::vector<float> values = to_host(stream, parameter.value);
    double squares = 0;
    for (const float value : values) squares += static_cast<double>(value) * value;
    finite = finite && std::isfinite(squares);
    Json first8 = Json::array();
    for (std::size_t i = 0; i < std::min<std::size_t>(8, values.size()); ++i) {
      first8.push_back(significant(values[i]));
    }
    described[parameter.name] = {{"l2", significant(std::sqrt(squares))},
                                 {"first8", first8},
                                 {"sha256", sha256(values)}};
  }
  const double step_ms = median(steady(step_ms_));
  const double communication_ms = median(steady(communication_ms_));
  const auto begin = static_cast<std::ptrdiff_t>(steps_left_out(steps()));
  const double seconds = 1e-3 * std::accumulate(step_ms_.begin() + begin, step_ms_.end(), 0.0);
  const auto samples = static_cast<double>(
      std::accumulate(samples_.begin() + begin, samples_.end(), std::size_t{0}));
  const double samples_per_second = seconds > 0 ? samples / seconds : 0.0;

  console_.line(fmt::format(
      "one step: {:.2f} ms, of which communication {:.2f} ms; {:.0f} samples per second",
      step_ms, communication_ms, samples_per_second));
  console_.row({{"final", true},
                {"steps", steps()},
                {"parameters", described},
                {"replicas_identical", replicas_identical},
                {"test_accuracy", test_accuracy_ ? Json(*test_accuracy_) : Json()},
                {"samples_per_second", significant(samples_per_second)},
                {"step_ms", significant(step_ms)},
                {"compute_ms", significant(step_ms - communication_ms)},
                {"comm_ms", significant(communication_ms)},
                {"exposed_comm_ms", significant(communication_ms)},
                {"device", run.device},
                {"backend", nullable(run.backend)},
                {"algorithm", nullable(run.algorithm)},
                {"ranks", run.ranks}});
  return finite;
}

}  // namespace dist
