#include "03_all_reduce/show/program.hpp"

#include "01_send_recv/measure.hpp"
#include "03_all_reduce/nccl_all_reduce.hpp"
#include "common/host_copy.hpp"
#include "common/join.hpp"
#include "common/json.hpp"
#include "common/tracer_numbers.hpp"
#include "common/watch.hpp"

#include <mpi.h>

#include <fmt/core.h>

#include <cmath>
#include <map>

namespace dist {
namespace {

const std::map<std::string, ReduceOp> kOps{
    {"sum", ReduceOp::sum}, {"avg", ReduceOp::avg}, {"max", ReduceOp::max}};

Tensor allocate_message(const AllReduceContext& context, std::size_t count) {
  const Device device = context.stream.device();
  if (context.options.registered && device.is_cpu()) return context.reducer.allocate({count});
  return {{count}, device};
}

void run(const AllReduceContext& context, const std::string& algorithm, const Tensor& tensor) {
  const ReduceOp op = kOps.at(context.options.op);
  if (algorithm == "nccl") {
    all_reduce_nccl(*context.nccl, tensor, op, context.stream);
    context.nccl->synchronize(context.stream);
    return;
  }
  on_host(context.stream, tensor, [&](std::span<float> data) {
    context.reducer.all_reduce(data, op, kAllReduceAlgorithms.at(algorithm));
  });
}

void fill(const AllReduceContext& context, const Tensor& tensor) {
  on_host(context.stream, tensor,
          [&](std::span<float> data) { fill_tracer_numbers(data, context.comm.rank()); });
}

// What element `index` must be, from the formula and not from another all-reduce.
double expected(const AllReduceContext& context, std::size_t index) {
  const int size = context.comm.size();
  if (context.options.op == "max") return tracer_number(size - 1, index);
  double sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += tracer_number(rank, index);
  return context.options.op == "sum" ? sum : sum / size;
}

// Wrong elements over all ranks; the same on all ranks.
std::size_t wrong_elements(const AllReduceContext& context, const Tensor& tensor) {
  // Sums of whole numbers below 2^24 are exact. Beyond that, and for an average, each of up to
  // size additions may round once.
  const int size = context.comm.size();
  const double tolerance = context.options.op == "max" ? 0.0 : size * 0x1p-24;
  const std::vector<float> data = to_host(context.stream, tensor);
  std::uint64_t wrong = count_wrong(
      data, [&](std::size_t i) { return expected(context, i); }, tolerance);
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_SUM, context.comm.get()));
  return wrong;
}

// One algorithm at one size.
struct Result {
  std::string algorithm;
  std::string chosen;
  std::size_t bytes = 0;
  double seconds = 0;
  std::size_t wrong = 0;
  std::optional<double> predicted;  // seconds
  std::optional<Traffic> traffic;   // nothing where no message of ours is seen

  double busbw(int ranks) const {
    const double algbw = seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0.0;
    return algbw * 2 * (ranks - 1) / ranks;
  }
  // By how much the prediction missed, of the measured time: "+12%".
  std::string error() const {
    if (!predicted || seconds <= 0) return "-";
    return fmt::format("{:+.0f}%", 100 * (*predicted / seconds - 1));
  }
  std::string time() const {
    return fmt::format("{:.{}f}{}", 1e6 * seconds, seconds < 1e-3 ? 1 : 0,
                       wrong == 0 ? "" : " WRONG");
  }
};

std::optional<double> predict(const AllReduceContext& context, const Result& result,
                              bool registered) {
  if (result.chosen == "nccl" || !context.stream.device().is_cpu()) return std::nullopt;
  const AllReduceAlgorithm algorithm = kAllReduceAlgorithms.at(result.chosen);
  if (algorithm != AllReduceAlgorithm::shared_memory && !context.links_measured) {
    return std::nullopt;
  }
  return predict_all_reduce(algorithm, static_cast<double>(result.bytes), context.comm.size(),
                            context.reducer.costs(), registered);
}

Result measure(const AllReduceContext& context, const std::string& algorithm,
               const Tensor& tensor) {
  Result result;
  result.algorithm = algorithm;
  result.chosen = algorithm;
  result.bytes = tensor.size_bytes();
  const bool registered = tensor.device().is_cpu() &&
                          context.reducer.is_registered(tensor.data(), tensor.size_bytes());
  if (algorithm == "auto") {
    result.chosen = to_string(
        context.reducer.chosen(AllReduceAlgorithm::automatic, result.bytes, registered));
  }
  result.seconds = median_of_slowest(
      context.comm, context.options.sweep.iterations, [&] { fill(context, tensor); },
      [&] { run(context, algorithm, tensor); });
  result.wrong = wrong_elements(context, tensor);
  if (result.chosen != "mpi" && result.chosen != "nccl" && result.chosen != "shared-memory") {
    result.traffic = count_traffic(context.comm, [&] { run(context, algorithm, tensor); });
  }
  result.predicted = predict(context, result, registered);
  return result;
}

Json row_of(const Result& result, int ranks) {
  const double algbw = static_cast<double>(result.bytes) / result.seconds / 1e9;
  return {
      {"algorithm", result.algorithm},
      {"chosen", result.chosen},
      {"bytes", result.bytes},
      {"ranks", ranks},
      {"time_us", significant(1e6 * result.seconds)},
      {"algbw_gbs", significant(algbw)},
      {"busbw_gbs", significant(algbw * 2 * (ranks - 1) / ranks)},
      {"wrong", result.wrong},
      {"messages_per_rank", result.traffic ? Json(result.traffic->messages_per_rank) : Json()},
      {"bytes_per_rank", result.traffic ? Json(result.traffic->bytes_per_rank) : Json()},
      {"peers", result.traffic ? Json(result.traffic->peers) : Json()},
      {"predicted_us", result.predicted ? Json(significant(1e6 * *result.predicted)) : Json()}};
}

// All algorithms side by side: one line each, one column per size. The last column says by how
// much the predictions missed, in the middle of the sizes from 64 KiB.
void print_side_by_side(const AllReduceContext& context,
                        const std::vector<std::vector<Result>>& by_algorithm) {
  std::vector<std::string> header{"us"};
  for (const Result& result : by_algorithm.front())
    header.push_back(format_bytes(result.bytes));
  header.emplace_back("predicted");
  Table table(header);
  for (const std::vector<Result>& results : by_algorithm) {
    std::vector<std::string> cells{results.front().algorithm};
    std::vector<double> errors;
    for (const Result& result : results) {
      cells.push_back(result.time());
      if (result.predicted && result.bytes >= 64 * 1024) {
        errors.push_back(100 * (*result.predicted / result.seconds - 1));
      }
    }
    cells.push_back(errors.empty() ? "-" : fmt::format("{:+.0f}%", median(errors)));
    table.add(cells);
  }
  table.print(context.console);
}

// One algorithm alone: one line per size.
void print_details(const AllReduceContext& context, const std::vector<Result>& results) {
  Table table(
      {"size", "runs", "time us", "predicted us", "error", "busbw GB/s", "messages", "bytes"});
  for (const Result& result : results) {
    table.add({format_bytes(result.bytes), result.chosen, result.time(),
               result.predicted ? fmt::format("{:.1f}", 1e6 * *result.predicted) : "-",
               result.error(), fmt::format("{:.2f}", result.busbw(context.comm.size())),
               result.traffic ? std::to_string(result.traffic->messages_per_rank) : "-",
               result.traffic ? std::to_string(result.traffic->bytes_per_rank) : "-"});
  }
  table.print(context.console);
}

}  // namespace

bool show_four_numbers(const AllReduceContext& context, const std::string& algorithm) {
  const Tensor tensor = allocate_message(context, 4);
  fill(context, tensor);
  const std::vector<float> before = to_host(context.stream, tensor);
  // All have to have read theirs before anybody's changes: registered memory is everybody's.
  context.comm.barrier();
  run(context, algorithm, tensor);
  context.console.line(
      fmt::format("{}: the {} of all ranks' four numbers", algorithm, context.options.op));
  lines_in_rank_order(
      context.console, context.comm,
      fmt::format("  rank {}  {}  ->  {}", context.comm.rank(), join(before, " ", "{:6}"),
                  join(to_host(context.stream, tensor), " ", "{:6}")));
  return wrong_elements(context, tensor) == 0;
}

bool show_times(const AllReduceContext& context, const std::vector<std::string>& algorithms) {
  const std::vector<std::size_t> sizes = context.options.sweep.sizes();
  const Tensor longest = allocate_message(context, sizes.back() / sizeof(float));
  std::vector<std::vector<Result>> by_algorithm(algorithms.size());
  bool correct = true;
  for (const std::size_t bytes : sizes) {
    const Tensor tensor = longest.narrow(0, bytes / sizeof(float));
    for (std::size_t a = 0; a < algorithms.size(); ++a) {
      const Result result = measure(context, algorithms[a], tensor);
      correct = correct && result.wrong == 0;
      context.console.row(row_of(result, context.comm.size()));
      by_algorithm[a].push_back(result);
    }
  }
  context.console.line("times in microseconds, the slowest rank's; predicted: off by");
  if (algorithms.size() == 1) {
    print_details(context, by_algorithm.front());
  } else {
    print_side_by_side(context, by_algorithm);
  }
  return correct;
}

}  // namespace dist
