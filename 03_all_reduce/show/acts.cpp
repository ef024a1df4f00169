#include "03_all_reduce/show/acts.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/measure.hpp"
#include "01_send_recv/perf/nccl_flag.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "03_all_reduce/nccl_all_reduce.hpp"
#include "03_all_reduce/show/ring_picture.hpp"
#include "common/check.hpp"
#include "common/join.hpp"
#include "common/watch.hpp"

#include <mpi.h>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <map>

namespace dist {
namespace {

const std::map<std::string, ReduceOp> kOps{
    {"sum", ReduceOp::sum}, {"avg", ReduceOp::avg}, {"max", ReduceOp::max}};

Tensor allocate_message(const AllReduces& with, std::size_t count) {
  const Device device = with.program.stream.device();
  if (with.options.registered && device.is_cpu()) return with.reducer.allocate({count});
  return {{count}, device};
}

void run(const AllReduces& with, const std::string& algorithm, const Tensor& tensor) {
  const ReduceOp op = kOps.at(with.options.op);
  if (algorithm == "nccl") {
    all_reduce_nccl(*with.nccl, tensor, op, with.program.stream);
    with.nccl->synchronize(with.program.stream);
    return;
  }
  on_host(with.program.stream, tensor, [&](std::span<float> data) {
    with.reducer.all_reduce(data, op, kAllReduceAlgorithms.at(algorithm));
  });
}

void fill(const AllReduces& with, const Tensor& tensor) {
  on_host(with.program.stream, tensor,
          [&](std::span<float> data) { fill_tracer_numbers(data, with.program.comm.rank()); });
}

// The value that element `index` must have, computed without an all-reduce.
double expected(const AllReduces& with, std::size_t index) {
  const int size = with.program.comm.size();
  if (with.options.op == "max") return tracer_number(size - 1, index);
  double sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += tracer_number(rank, index);
  return with.options.op == "sum" ? sum : sum / size;
}

// Returns the total number of wrong elements over all ranks. All ranks get the same total.
std::size_t wrong_elements(const AllReduces& with, const Tensor& tensor) {
  // Whole numbers below 2^24 are summed exactly. A larger sum or an average may be rounded in
  // each of up to `size` operations.
  const int size = with.program.comm.size();
  const double tolerance = with.options.op == "max" ? 0.0 : size * 0x1p-24;
  const std::vector<float> data = to_host(with.program.stream, tensor);
  std::uint64_t wrong = count_wrong(
      data, [&](std::size_t i) { return expected(with, i); }, tolerance);
  MPI_CHECK(
      MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_SUM, with.program.comm.get()));
  return wrong;
}

// The results of one algorithm at one size.
struct Result {
  std::string algorithm;
  std::string chosen;
  std::size_t bytes = 0;
  double seconds = 0;
  std::size_t wrong = 0;
  std::optional<double> predicted;  // seconds
  std::optional<Traffic> traffic;   // nullopt if this program itself sends no messages

  double busbw(int ranks) const {
    const double algbw = seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0.0;
    return algbw * 2 * (ranks - 1) / ranks;
  }
  // The error of the prediction, relative to the measured time; for example, "+12%".
  std::string error() const {
    if (!predicted || seconds <= 0) return "-";
    return fmt::format("{:+.0f}%", 100 * (*predicted / seconds - 1));
  }
  std::string time() const {
    return fmt::format("{:.{}f}{}", 1e6 * seconds, seconds < 1e-3 ? 1 : 0,
                       wrong == 0 ? "" : " WRONG");
  }
};

std::optional<double> predict(const AllReduces& with, const Result& result, bool registered) {
  if (result.chosen == "nccl" || !with.program.stream.device().is_cpu()) return std::nullopt;
  const AllReduceAlgorithm algorithm = kAllReduceAlgorithms.at(result.chosen);
  if (algorithm != AllReduceAlgorithm::shared_memory && !with.links_measured) {
    return std::nullopt;
  }
  return predict_all_reduce(algorithm, static_cast<double>(result.bytes),
                            with.program.comm.size(), with.reducer.costs(), registered);
}

Result measure(const AllReduces& with, const std::string& algorithm, const Tensor& tensor) {
  Result result;
  result.algorithm = algorithm;
  result.chosen = algorithm;
  result.bytes = tensor.size_bytes();
  const bool registered = tensor.device().is_cpu() &&
                          with.reducer.is_registered(tensor.data(), tensor.size_bytes());
  if (algorithm != "nccl") {
    result.chosen = to_string(
        with.reducer.chosen(kAllReduceAlgorithms.at(algorithm), result.bytes, registered));
  }
  result.seconds = median_of_slowest(
      with.program.comm, with.options.sweep.iterations, [&] { fill(with, tensor); },
      [&] { run(with, algorithm, tensor); });
  result.wrong = wrong_elements(with, tensor);
  if (result.chosen != "mpi" && result.chosen != "nccl" && result.chosen != "shared-memory") {
    result.traffic = count_traffic(with.program.comm, [&] { run(with, algorithm, tensor); });
  }
  result.predicted = predict(with, result, registered);
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

// Prints a table of all algorithms, with one line per algorithm and one column per size. The
// last column is the median error of the predictions for 64 KiB and more.
void print_side_by_side(const AllReduces& with,
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
      cells.push_back(result.time());
      if (result.predicted && result.bytes >= 64 * 1024) {
        errors.push_back(100 * (*result.predicted / result.seconds - 1));
      }
    }
    cells.push_back(errors.empty() ? "-" : fmt::format("{:+.0f}%", median(errors)));
    table.add(cells);
  }
  table.print(with.program.console);
}

// Prints a table of a single algorithm, with one line per size.
void print_details(const AllReduces& with, const std::vector<Result>& results) {
  Table table(
      {"size", "runs", "time us", "predicted us", "error", "busbw GB/s", "messages", "bytes"});
  for (const Result& result : results) {
    table.add({format_bytes(result.bytes), result.chosen, result.time(),
               result.predicted ? fmt::format("{:.1f}", 1e6 * *result.predicted) : "-",
               result.error(), fmt::format("{:.2f}", result.busbw(with.program.comm.size())),
               result.traffic ? std::to_string(result.traffic->messages_per_rank) : "-",
               result.traffic ? std::to_string(result.traffic->bytes_per_rank) : "-"});
  }
  table.print(with.program.console);
}

}  // namespace

void AllReduceOptions::declare(Program& program) {
  CommandLine& flags = program.flags;
  flags.choice("--algorithm", algorithm,
               {"naive", "recursive-doubling", "ring", "ring-pipelined", "rabenseifner",
                "shared-memory", "hierarchical", "mpi", "nccl", "auto", "all"},
               "the algorithm; auto is the one predicted to be fastest");
  flags.choice("--op", op, {"sum", "avg", "max"}, "the operation");
  sweep.declare(flags, /*smallest=*/0);
  program.declare_common();
  check_nccl_flag(program, "--algorithm", algorithm, no_nccl);
  flags.flag("--picture", picture, "draw the ring for up to 16 ranks");
  flags.advanced();
  sweep.declare_iterations(flags);
  flags.flag("--registered,!--no-registered", registered,
             "use memory that all ranks of a host can access directly (the default)");
  flags.check([this, &program] {
    if (algorithm == "shared-memory") require_host_memory("--algorithm", program.comm);
    if (picture && (program.comm.size() < 2 || program.comm.size() > kMostPictureRanks)) {
      throw Error(fmt::format("--picture: draws 2 to {} ranks", kMostPictureRanks));
    }
  });
}

std::vector<std::string> AllReduceOptions::algorithms(const AllReducer& reducer,
                                                      std::string& left_out) const {
  if (algorithm != "all") return {algorithm};
  std::vector<std::string> all{"naive", "recursive-doubling", "rabenseifner", "ring",
                               "ring-pipelined"};
  const std::string& obstacle = reducer.why_no_shared_memory();
  if (obstacle.empty()) {
    all.emplace_back("shared-memory");
  } else {
    if (reducer.has_hierarchical()) all.emplace_back("hierarchical");
    left_out += "; no shared-memory: " + obstacle;
  }
  all.insert(all.end(), {"mpi", "auto"});
  if (no_nccl.empty()) {
    all.emplace_back("nccl");
  } else {
    left_out += "; no nccl: " + no_nccl;
  }
  return all;
}

bool show_four_numbers(const AllReduces& with, const std::string& algorithm) {
  const Tensor tensor = allocate_message(with, 4);
  fill(with, tensor);
  const std::vector<float> before = to_host(with.program.stream, tensor);
  // In registered memory, one rank's all-reduce changes the other ranks' numbers, so all ranks
  // must have read their own numbers before it starts.
  with.program.comm.barrier();
  run(with, algorithm, tensor);
  with.program.console.line(
      fmt::format("{}: the {} of all ranks' four numbers", algorithm, with.options.op));
  lines_in_rank_order(
      with.program.console, with.program.comm,
      fmt::format("  rank {}  {}  ->  {}", with.program.comm.rank(), join(before, " ", "{:6}"),
                  join(to_host(with.program.stream, tensor), " ", "{:6}")));
  return wrong_elements(with, tensor) == 0;
}

bool show_times(const AllReduces& with, const std::vector<std::string>& algorithms) {
  const std::vector<std::size_t> sizes = with.options.sweep.sizes();
  const Tensor longest = allocate_message(with, sizes.back() / sizeof(float));
  std::vector<std::vector<Result>> by_algorithm(algorithms.size());
  bool correct = true;
  for (const std::size_t bytes : sizes) {
    const Tensor tensor = longest.narrow(0, bytes / sizeof(float));
    for (std::size_t a = 0; a < algorithms.size(); ++a) {
      const Result result = measure(with, algorithms[a], tensor);
      correct = correct && result.wrong == 0;
      with.program.console.row(row_of(result, with.program.comm.size()));
      by_algorithm[a].push_back(result);
    }
  }
  with.program.console.line(
      "median times in microseconds on the slowest rank; error: how far off the prediction is");
  if (algorithms.size() == 1) {
    print_details(with, by_algorithm.front());
  } else {
    print_side_by_side(with, by_algorithm);
  }
  return correct;
}

}  // namespace dist
