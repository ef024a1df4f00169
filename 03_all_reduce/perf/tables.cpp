#include "01_send_recv/measure.hpp"
#include "03_all_reduce/perf/measure.hpp"
#include "common/console.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace dist {
namespace {

// n / time, and what each link carries; as in nccl-tests.
double algbw(const Result& result) {
  return static_cast<double>(result.bytes) / result.seconds / 1e9;
}
double busbw(const Result& result, int ranks) {
  return algbw(result) * 2 * (ranks - 1) / ranks;
}

// The error of the prediction in percent, relative to the measured time.
double error(const Result& result) {
  return 100 * (*result.predicted / result.seconds - 1);
}

std::string time_of(const Result& result) {
  return fmt::format("{:.{}f}{}", 1e6 * result.seconds, result.seconds < 1e-3 ? 1 : 0,
                     result.wrong == 0 ? "" : " WRONG");
}

// The last column is the median error of the predictions for 64 KiB and more.
void print_side_by_side(const Console& console,
                        const std::vector<std::vector<Result>>& by_algorithm) {
  std::vector<std::string> header{"us"};
  for (const Result& result : by_algorithm.front())
    header.push_back(format_bytes(result.bytes));
  header.emplace_back("error");
  Table table(header);
  for (const std::vector<Result>& results : by_algorithm) {
    std::vector<std::string> cells{results.front().algorithm};
    std::vector<double> errors;
    for (const Result& result : results) {
      cells.push_back(time_of(result));
      if (result.predicted && result.bytes >= 64 * 1024) errors.push_back(error(result));
    }
    cells.push_back(errors.empty() ? "-" : fmt::format("{:+.0f}%", median(errors)));
    table.add(cells);
  }
  table.print(console);
}

void print_details(const Console& console, int ranks, const std::vector<Result>& results) {
  Table table(
      {"size", "runs", "time us", "predicted us", "error", "busbw GB/s", "messages", "bytes"});
  for (const Result& result : results) {
    const std::optional<double>& predicted = result.predicted;
    const std::optional<Traffic>& traffic = result.traffic;
    table.add({format_bytes(result.bytes), result.chosen, time_of(result),
               predicted ? fmt::format("{:.1f}", 1e6 * *predicted) : "-",
               predicted ? fmt::format("{:+.0f}%", error(result)) : "-",
               fmt::format("{:.2f}", busbw(result, ranks)),
               traffic ? std::to_string(traffic->messages_per_rank) : "-",
               traffic ? std::to_string(traffic->bytes_per_rank) : "-"});
  }
  table.print(console);
}

}  // namespace

Json row_of(const Result& result, int ranks) {
  const std::optional<Traffic>& traffic = result.traffic;
  return {
      {"algorithm", result.algorithm},
      {"chosen", result.chosen},
      {"bytes", result.bytes},
      {"ranks", ranks},
      {"time_us", significant(1e6 * result.seconds)},
      {"algbw_gbs", significant(algbw(result))},
      {"busbw_gbs", significant(busbw(result, ranks))},
      {"wrong", result.wrong},
      {"messages_per_rank", traffic ? Json(traffic->messages_per_rank) : Json()},
      {"bytes_per_rank", traffic ? Json(traffic->bytes_per_rank) : Json()},
      {"peers", traffic ? Json(traffic->peers) : Json()},
      {"predicted_us", result.predicted ? Json(significant(1e6 * *result.predicted)) : Json()}};
}

void print_table(const Console& console, int ranks,
                 const std::vector<std::vector<Result>>& by_algorithm) {
  console.line(
      "median times in microseconds on the slowest rank; error: how far off the prediction is");
  if (by_algorithm.size() == 1) {
    print_details(console, ranks, by_algorithm.front());
  } else {
    print_side_by_side(console, by_algorithm);
  }
}

}  // namespace dist
