#include "05_ddp_training/trainer/report.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "05_ddp_training/checkpoint/safetensors.hpp"
#include "common/check.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>

namespace dist {

namespace {

// What an earlier run wrote to --metrics for steps before a given one, and for the tests after
// them.
struct EarlierLines {
  std::string kept{};
  bool end_with_last_step = false;  // and not with a test after it
};

}  // namespace

// Drops a line that was cut off when the run was killed: it is not JSON and belongs to a later
// step.
static EarlierLines lines_before(const std::string& path, std::size_t first_step) {
  std::ifstream file(path);
  EarlierLines lines;
  bool is_kept = true;  // the last step, and so what follows it
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto number = [&](const char* key) -> std::optional<std::size_t> {
      if (!row.is_object() || !row.contains(key) || !row[key].is_number_unsigned()) return {};
      return row[key].get<std::size_t>();
    };
    const auto step = number("step");
    if (step) is_kept = *step < first_step;
    if (!is_kept || (!step && !number("epoch"))) continue;
    lines.kept += line + '\n';
    lines.end_with_last_step = step && *step + 1 == first_step;
  }
  return lines;
}

static Json number_or_null(const auto& value) {
  return value ? Json(*value) : Json();
}

// Describes each tensor by name. Sets `finite` to false if a number is not finite.
static Json described(const std::vector<TensorSource>& tensors, const Stream& stream,
                      bool& finite) {
  Json all = Json::object();
  for (const TensorSource& tensor : tensors) {
    read_on_host(stream, tensor.get(), [&](std::span<const float> values) {
      double squares = 0;
      for (const float value : values) squares += static_cast<double>(value) * value;
      finite = finite && std::isfinite(squares);
      Json first8 = Json::array();
      for (const float value : values.first(std::min<std::size_t>(8, values.size()))) {
        first8.push_back(significant(value));
      }
      all[tensor.name] = {{"l2", significant(std::sqrt(squares))},
                          {"first8", first8},
                          {"sha256", sha256(values)}};
    });
  }
  return all;
}

Report::Report(const Console& console, const Options& options, std::size_t steps_before,
               std::size_t total_steps)
    : console_(console),
      options_(options),
      first_step_(steps_before),
      steps_(steps_before),
      total_steps_(total_steps) {
  const std::string& metrics = options.metrics;
  if (metrics.empty() || !console.speaks()) return;
  const EarlierLines before = steps_ > 0 ? lines_before(metrics, steps_) : EarlierLines{};
  lacks_test_ = before.end_with_last_step;
  write_file_at_once(metrics, before.kept);
  metrics_.emplace(::open(metrics.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC), metrics);
}

void Report::draw_bar() {
  constexpr std::size_t kWidth = 30;
  const std::size_t done = steps_ - first_step_;
  const std::size_t total = total_steps_ - first_step_;
  const std::size_t filled = done * kWidth / total;
  // Under mpirun a rank cannot find out whether its output reaches a terminal, but ./learn can.
  static const bool is_terminal = std::getenv("LEARN_TERMINAL") != nullptr;
  if (!console_.speaks() || !is_terminal || filled == bar_) return;
  bar_ = filled;
  fmt::print(stderr, "\rsteps [{:<{}}] {}/{}", std::string(filled, '#'), kWidth, done, total);
  std::fflush(stderr);
}

void Report::clear_bar() {
  if (bar_ > 0) fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  bar_ = 0;
}

void Report::step(std::size_t epoch, double lr, double loss, const UpdateState& update,
                  const std::string& not_finite, const StepTimes& times) {
  const std::size_t number = steps_++;
  times_.add(times);
  const bool taken = not_finite.empty();
  for (Losses* const losses : {&run_, &epoch_, &line_}) {
    ++losses->steps;
    losses->taken += taken ? 1 : 0;
    losses->sum += taken ? loss : 0;
  }
  if (taken && std::isfinite(loss) && !first_loss_) first_loss_ = loss;
  draw_bar();
  if (!taken) {
    clear_bar();
    console_.line("  step {}: skipped on all ranks because the gradient of {} is not finite",
                  number, not_finite);
  }
  if (options_.line_every > 0 && steps_ % options_.line_every == 0) {
    clear_bar();
    console_.line("  step {:4}/{}  loss {:.3f}", steps_, total_steps_,
                  std::exchange(line_, {}).mean());
  }
  if (!console_.speaks() || (!console_.json() && !metrics_)) return;
  Json row{
      {"step", number}, {"epoch", epoch}, {"loss", significant(loss)}, {"lr", significant(lr)}};
  if (!taken) row["skipped"] = not_finite;
  if (options_.optimizer.clip_norm > 0) {
    row["grad_norm"] = taken ? Json(significant(update.norm)) : Json();
  }
  write(row);
}

void Report::write(const Json& row) {
  console_.row(row);
  if (!metrics_) return;
  try {
    const std::string line = to_text(row) + '\n';
    metrics_->write(line.data(), line.size());
  } catch (const Error& error) {  // a full disk must not end the run
    metrics_.reset();
    problem_ = fmt::format("--metrics: {}", error.what());
    fmt::print(stderr, "error: {}; training continues without metrics\n", printable(problem_));
  }
}

void Report::test(std::size_t epoch) {
  if (!console_.speaks() || !summary.test_accuracy) return;
  write({{"epoch", epoch}, {"test_accuracy", significant(*summary.test_accuracy)}});
}

void Report::epoch(std::size_t epoch, Epoch steps) {
  const Losses losses = std::exchange(epoch_, {});
  if (steps == Epoch::whole) whole_epoch_ = losses;
  clear_bar();
  std::string accuracy;
  if (summary.test_accuracy) {
    accuracy = fmt::format("  test accuracy {:.2f} %", 100 * *summary.test_accuracy);
  }
  if (times_.empty()) {  // nothing was trained
    if (summary.test_accuracy) console_.line(accuracy);
    return;
  }
  console_.line(
      "  epoch {}  step {:4}/{}  {}{}", epoch + 1, steps_, total_steps_,
      losses.taken > 0 ? fmt::format("loss {:.4f}", losses.mean()) : "no step was taken",
      accuracy);
  if (steps != Epoch::unfinished) test(epoch);
}

std::string Report::learned_nothing(std::size_t classes) const {
  for (const auto& [name, losses] :
       {std::pair{"run", run_}, std::pair{"last whole epoch", whole_epoch_}}) {
    if (2 * losses.taken >= losses.steps) continue;
    return fmt::format("only {} of the {} steps of the {} were taken: training diverged",
                       losses.taken, losses.steps, name);
  }
  if (whole_epoch_.steps == 0) return "";
  const double loss = whole_epoch_.mean();
  if (!std::isfinite(loss)) {
    return fmt::format("the mean loss of the last whole epoch is {}: training diverged", loss);
  }
  // Guessing with equal probabilities has a loss of ln(classes).
  const double limit = 2 * std::log(static_cast<double>(classes));
  if (loss <= std::max(first_loss_.value_or(0), limit)) return "";
  return fmt::format(
      "the mean loss of the last whole epoch, {:.4g}, is above the first step's, {:.4g}, and "
      "above 2 ln({}) = {:.4g}: the model does worse than guessing",
      loss, first_loss_.value_or(0), classes, limit);
}

void Report::stopped(const std::string& checkpoint) {
  clear_bar();
  console_.line("stopped after step {} of {}, as requested; --resume continues from {}", steps_,
                total_steps_, checkpoint);
  console_.row({{"stopped", true}, {"steps", steps_}, {"checkpoint", checkpoint}});
}

void Report::print(const StepTimes& typical, const StepTimes& plain) const {
  if (typical.replayed) {
    console_.line("one step: {:.2f} ms, replayed as one graph of {} kernels", typical.step,
                  summary.graph_nodes);
  }
  if (std::isfinite(plain.step)) {  // its parts are known
    console_.line(
        "{}: {:.2f} ms = data {:.2f} + compute {:.2f} + exposed communication "
        "{:.2f} + optimizer {:.2f}",
        typical.replayed ? "a step that is not replayed" : "one step", plain.step, plain.data,
        plain.compute(), plain.exposed, plain.optimizer);
  }
  if (summary.overlaps && summary.least_bytes > 0 && std::isfinite(plain.step)) {
    std::string text = fmt::format("communication: {:.2f} ms per step, {:.0f} % of it hidden",
                                   plain.communication, 100 * plain.hidden());
    if (options_.pretend_link > 0) {
      text += fmt::format(", as on a link of {} Gbit/s", options_.pretend_link);
    }
    console_.line(text);
  }
  if (summary.least_bytes > 0) {
    // Communication without messages, for example through shared memory, cannot be counted.
    const std::string least = fmt::format("{:.2f} MiB is the least for the busiest rank",
                                          summary.least_bytes / 0x1p20);
    console_.line(
        summary.bytes_sent
            ? fmt::format("traffic: {:.2f} MiB sent per rank and step; {}",
                          static_cast<double>(*summary.bytes_sent) / 0x1p20, least)
            : fmt::format("traffic: {} per step (the bytes sent were not counted)", least));
  }
  if (summary.slowest) {
    console_.line(
        "slow: the others waited for rank {}, whose own work took {:.1f} "
        "times as long as theirs",
        summary.slowest->rank, summary.slowest->ratio);
  }
  if (summary.paused) {
    const CpuQuota& quota = summary.paused->quota;
    console_.line(
        "slow: rank {}'s control group may use {:.3g} processors, and was paused in {} of {} "
        "periods",
        summary.paused->rank, quota.processors, quota.paused_periods, quota.periods);
  }
  console_.line("{:.0f} samples per second", times_.samples_per_second());
  console_.line(summary.memory.text(summary.device));
}

bool Report::finish(const std::vector<TensorSource>& parameters, const Stream& stream,
                    const Json& more) {
  const RunSummary& run = summary;
  bool finite = true;
  const Json all_parameters = described(parameters, stream, finite);
  const StepTimes typical = times_.typical();
  const StepTimes plain = times_.plain();
  const std::size_t skipped = run_.steps - run_.taken;
  if (skipped > 0) {
    console_.line("{} steps were skipped: a gradient was not finite", skipped);
  }
  if (!times_.empty()) print(typical, plain);
  const std::string algorithm =
      options_.deterministic ? "fixed-tree" : to_string(options_.algorithm);
  const bool on_gpu = run.device != "cpu";
  Json row{
      {"final", true},
      {"steps", steps_},
      {"skipped_steps", skipped},
      {"parameters", all_parameters},
      {"replicas_identical", number_or_null(run.replicas_identical)},
      {"test_accuracy", number_or_null(run.test_accuracy)},
      {"samples_per_second", significant(times_.samples_per_second())},
      {"step_ms", significant(typical.step)},
      {"plain_step_ms", significant(plain.step)},
      {"data_ms", significant(plain.data)},
      {"compute_ms", significant(plain.compute())},
      {"comm_ms", significant(plain.communication)},
      {"exposed_comm_ms", significant(plain.exposed)},
      {"hideable_comm_ms", significant(plain.hideable)},
      {"hidden", significant(plain.hidden())},
      {"optimizer_ms", significant(plain.optimizer)},
      {"between_steps_ms",
       {{"tests", significant(run.between_ms.tests)},
        {"replica_checks", significant(run.between_ms.replica_checks)},
        {"checkpoints", significant(run.between_ms.checkpoints)}}},
      {"bytes_sent_per_step", number_or_null(run.bytes_sent)},
      {"least_bytes_per_step", significant(run.least_bytes)},
      {"slowest_rank", run.slowest ? Json(run.slowest->rank) : Json()},
      {"slowest_ratio", run.slowest ? Json(significant(run.slowest->ratio)) : Json()},
      {"memory",
       {{"parameters_bytes", run.memory.parameters},
        {"gradients_bytes", run.memory.gradients},
        {"optimizer_bytes", run.memory.optimizer_state},
        {"activations_bytes", run.memory.activations},
        {"buckets_bytes", run.memory.buckets},
        {"copies_bytes", run.memory.copies},
        {"peak_bytes", run.memory.peak},
        {"before_model_bytes", run.memory.before}}},
      {"host_waits_per_step", on_gpu ? Json(significant(typical.waits)) : Json()},
      {"allocations_per_step", on_gpu ? Json(significant(typical.allocations)) : Json()},
      {"graph_nodes", on_gpu ? Json(run.graph_nodes) : Json()},
      {"device", run.device},
      {"backend", run.backend},
      {"algorithm", run.backend == "ours" ? Json(algorithm) : Json()},
      {"shard", options_.shard},
      {"pretend_link_gbits", options_.pretend_link > 0 ? Json(options_.pretend_link) : Json()},
      {"precision", options_.precision},
      {"matmul", on_gpu ? Json() : Json(describe_matmul(options_.matmul))},
      {"ranks", run.ranks}};
  row.update(more);
  console_.row(row);
  return finite;
}

}  // namespace dist
