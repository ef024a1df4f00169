#include "05_ddp_training/trainer/report/summary.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "05_ddp_training/checkpoint/sha256.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace dist {
namespace {

std::string communication_line(const StepTimes& times, const std::string& how) {
  const double hidden = times.hidden();
  if (!std::isfinite(times.communication)) {
    return fmt::format("communication: the hidden part cannot be measured ({})", how);
  }
  std::string text = fmt::format("communication: {:.2f} ms per step, {:.0f} % of it hidden",
                                 times.communication, 100 * hidden);
  if (hidden > 0 && times.hideable > 0) {
    const double best = times.hideable / times.communication;
    text += fmt::format(", {:.0f} % of what can be hidden", 100 * std::min(1.0, hidden / best));
  }
  return text + fmt::format(" ({})", how);
}

// Communication without messages, for example through shared memory, cannot be counted.
std::string traffic_line(const Summary& run) {
  constexpr double kMiB = 1024.0 * 1024.0;
  const std::string least =
      fmt::format("{:.2f} MiB is the least that a rank must send", run.least_bytes / kMiB);
  if (!run.bytes_sent) {
    return fmt::format("traffic: {} per step (the bytes sent were not counted)", least);
  }
  return fmt::format("traffic: {:.2f} MiB sent per rank and step; {}",
                     static_cast<double>(*run.bytes_sent) / kMiB, least);
}

std::string between_line(const TimesBetween& times) {
  std::string text;
  for (const auto& [name, ms] : {std::pair("tests", times.tests),
                                 {"replica checks", times.replica_checks},
                                 {"checkpoints", times.checkpoints}}) {
    if (ms > 0) text += fmt::format("{}{} {:.1f} ms", text.empty() ? "" : ", ", name, ms);
  }
  return "between the steps, in all: " + (text.empty() ? "nothing" : text);
}

Json nullable(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

// Describes each parameter by name. Sets `finite` to false if a number is not finite.
Json described(std::span<const Parameter> parameters, const Stream& stream, const Shard* shard,
               bool& finite) {
  Json all = Json::object();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const bool is_whole = shard == nullptr || shard->level() < ShardLevel::parameters;
    const Tensor tensor =
        is_whole ? parameters[p].value : shard->gather(p, shard->parts()[p].value, stream);
    all[parameters[p].name] =
        read_on_host(stream, tensor, [&](std::span<const float> values) -> Json {
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
  return all;
}

}  // namespace

bool Summary::print(const Console& console, const StepTimeline& times,
                    std::span<const Parameter> parameters, const Stream& stream,
                    const Shard* shard) const {
  const auto on_gpu = [&](double value) {
    return run.device == "cpu" ? Json() : Json(significant(value));
  };
  bool finite = true;
  const Json described_parameters = described(parameters, stream, shard, finite);
  const StepTimes typical = times.typical();
  const StepTimes plain = times.plain();
  if (skipped > 0) {
    console.line(fmt::format("{} steps were skipped: a gradient was not finite", skipped));
  }
  if (times.steps() > 0) {
    if (typical.replayed) {
      console.line(fmt::format("one step: {:.2f} ms, replayed as one graph of {} kernels",
                               typical.step, graph_nodes));
    }
    const bool parts_known = std::isfinite(plain.step);
    if (parts_known) {
      console.line(
          fmt::format("{}: {:.2f} ms = data {:.2f} + compute {:.2f} + exposed communication "
                      "{:.2f} + optimizer {:.2f}",
                      typical.replayed ? "a step that is not replayed" : "one step", plain.step,
                      plain.data, plain.compute(), plain.exposed, plain.optimizer));
    }
    if (least_bytes > 0) {
      if (parts_known) console.line(communication_line(plain, run.overlap));
      console.line(traffic_line(*this));
    }
    if (slowest) {
      console.line(fmt::format(
          "slow: the others waited for rank {}, whose own work took {:.1f} times as "
          "long as theirs",
          slowest->rank, slowest->ratio));
    }
    console.line(fmt::format("{:.0f} samples per second", times.samples_per_second()));
    console.line(between_line(between));
    console.line(describe(memory, run.device));
  }
  console.row({{"final", true},
               {"steps", steps},
               {"skipped_steps", skipped},
               {"parameters", described_parameters},
               {"replicas_identical", replicas_identical ? Json(*replicas_identical) : Json()},
               {"test_accuracy", test_accuracy ? Json(*test_accuracy) : Json()},
               {"samples_per_second", significant(times.samples_per_second())},
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
                {{"tests", significant(between.tests)},
                 {"replica_checks", significant(between.replica_checks)},
                 {"checkpoints", significant(between.checkpoints)}}},
               {"bytes_sent_per_step", bytes_sent ? Json(*bytes_sent) : Json()},
               {"least_bytes_per_step", significant(least_bytes)},
               {"slowest_rank", slowest ? Json(slowest->rank) : Json()},
               {"slowest_ratio", slowest ? Json(significant(slowest->ratio)) : Json()},
               {"memory", json_of(memory)},
               {"host_waits_per_step", on_gpu(typical.waits)},
               {"allocations_per_step", on_gpu(typical.allocations)},
               {"graph_nodes", run.device == "cpu" ? Json() : Json(graph_nodes)},
               {"device", run.device},
               {"backend", nullable(run.backend)},
               {"algorithm", nullable(run.algorithm)},
               {"shard", nullable(run.shard)},
               {"precision", run.precision},
               {"ranks", run.ranks}});
  return finite;
}

}  // namespace dist
