// What this file adds: a table of each algorithm's measured and predicted times at each size.
// Builds on: broadcast_cost, and the watch, which counts the rounds of the real run.
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/measure.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "02_broadcast/show/acts.hpp"
#include "02_broadcast/show/broadcast_cost.hpp"
#include "common/join.hpp"
#include "common/watch.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace dist {
namespace {

// A measurement of one algorithm at one size. Unknown values are nullopt: MPI and NCCL do not
// reveal their algorithms.
struct Measurement {
  double seconds = 0;
  std::size_t wrong = 0;
  std::optional<std::size_t> rounds;          // counted in a run
  std::optional<std::size_t> formula_rounds;  // by the formula
  std::optional<double> predicted;            // seconds
};

// Fills the root's tensor with the root's tracer numbers, and all other tensors with NaN, which
// never equals a right answer.
void fill(const Broadcasts& with, const Tensor& tensor) {
  on_host(with.program.stream, tensor, [&](std::span<float> data) {
    if (with.program.comm.rank() == with.root) {
      fill_tracer_numbers(data, with.program.comm.rank());
    } else {
      std::fill(data.begin(), data.end(), std::numeric_limits<float>::quiet_NaN());
    }
  });
}

Measurement measure(const Broadcasts& with, const std::string& algorithm, std::size_t bytes) {
  const Tensor tensor({bytes / sizeof(float)}, with.program.stream.device());
  Measurement result;
  result.seconds = median_of_slowest(
      with.program.comm, with.sweep.iterations, [&] { fill(with, tensor); },
      [&] { run_broadcast(with, algorithm, tensor); });
  result.wrong = wrong_elements(with, tensor);
  if (algorithm == "nccl") return result;
  const int size = with.program.comm.size();
  const BroadcastAlgorithm which = broadcast_algorithm(algorithm);
  result.formula_rounds =
      broadcast_rounds(which, bytes, size, with.measured.value_or(LinkCost{}));
  if (result.formula_rounds) {
    const auto traffic =
        count_traffic(with.program.comm, [&] { run_broadcast(with, algorithm, tensor); });
    if (traffic) result.rounds = traffic->rounds;
  }
  // There is no prediction for GPUs: lesson 1's curves include a copy to the host per round
  // trip, but a broadcast needs only one such copy.
  const bool comparable = with.measured && with.measured->device == DeviceType::cpu &&
                          with.program.stream.device().is_cpu();
  if (comparable) result.predicted = predict_broadcast(which, bytes, size, *with.measured);
  return result;
}

void print_row(const Broadcasts& with, const std::string& algorithm, std::size_t bytes,
               const Measurement& m) {
  with.program.console.row(
      {{"algorithm", algorithm},
       {"bytes", bytes},
       {"ranks", with.program.comm.size()},
       {"time_us", significant(1e6 * m.seconds)},
       {"rounds", m.rounds ? Json(*m.rounds) : Json()},
       {"wrong", m.wrong},
       {"predicted_us", m.predicted ? Json(significant(1e6 * *m.predicted)) : Json()}});
}

// Formats the time and the error of its prediction, for example "12.1 (-8%)".
std::string time_and_error(const Measurement& m) {
  std::string text = fmt::format("{:.1f}", 1e6 * m.seconds);
  if (m.predicted) text += fmt::format(" ({:+.0f}%)", 100 * (*m.predicted / m.seconds - 1));
  if (m.wrong != 0) text += " WRONG";
  return text;
}

std::string counted(const Measurement& m) {
  const auto text = [](std::optional<std::size_t> n) { return n ? std::to_string(*n) : "-"; };
  return fmt::format("{} ({})", text(m.rounds), text(m.formula_rounds));
}

}  // namespace

bool show_times(const Broadcasts& with, const std::vector<std::string>& algorithms) {
  const Console& console = with.program.console;
  if (with.measured) {
    const LinkCost& link = *with.measured;
    console.line(
        fmt::format("times in microseconds, on the slowest rank; in brackets, how far off the "
                    "prediction is\n(alpha {:.2f} us, beta {:.4f} ns per byte, from lesson "
                    "1's ping-pong on {} ranks)",
                    1e6 * link.alpha_s, 1e9 * link.beta_s_per_byte, link.ranks));
  } else {
    console.line("times in microseconds, on the slowest rank");
  }
  std::vector<std::string> header{"size"};
  header.insert(header.end(), algorithms.begin(), algorithms.end());
  Table table(header);
  bool correct = true;
  std::vector<std::string> rounds;  // for the largest size
  const std::vector<std::size_t> sizes = with.sweep.sizes();
  for (const std::size_t bytes : sizes) {
    std::vector<std::string> cells{format_bytes(bytes)};
    for (const std::string& algorithm : algorithms) {
      const Measurement measurement = measure(with, algorithm, bytes);
      correct = correct && measurement.wrong == 0;
      print_row(with, algorithm, bytes, measurement);
      cells.push_back(time_and_error(measurement));
      if (bytes == sizes.back() && measurement.rounds) {
        rounds.push_back(fmt::format("{} {}", algorithm, counted(measurement)));
      }
    }
    table.add(cells);
  }
  table.print(console);
  if (!rounds.empty()) {
    console.line(fmt::format("rounds at {}, counted (and by the formula):\n  {}",
                             format_bytes(sizes.back()), join(rounds, ", ")));
  }
  if (!with.measured) {
    console.line(
        fmt::format("to see predictions, first run mpirun -np {} build/bin/send_recv_perf",
                    with.program.comm.size()));
  }
  return correct;
}

}  // namespace dist
