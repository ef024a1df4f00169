// What each all-reduce costs, MPI's and NCCL's included: times, counts and predictions, by
// size.
//
//   mpirun -np 2 build/bin/all_reduce_perf
//   mpirun -np 4 build/bin/all_reduce_perf --algorithm ring --json --max-bytes 65536
//
// Builds on: choice/cost_model, and the watch, which counts the messages.
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/measure.hpp"
#include "01_send_recv/perf/nccl_flag.hpp"
#include "01_send_recv/perf/sweep_options.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "02_broadcast/perf/share_link_cost.hpp"
#include "03_all_reduce/choice/all_reducer.hpp"
#include "03_all_reduce/more_algorithms/nccl_all_reduce.hpp"
#include "common/mpi_environment.hpp"
#include "common/program.hpp"
#include "common/watch.hpp"

#include <mpi.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

using namespace dist;

namespace {

// What is the same for all algorithms and sizes.
struct Bench {
  const Program& program;
  ReduceOp op;
  int iterations;
  std::optional<LinkCost> link;  // what lesson 1 has measured, the same on all ranks
  AllReducer reducer;
  std::optional<NcclCommunicator> nccl;  // set if one of the algorithms is nccl
};

struct Result {
  std::string algorithm;  // as asked for
  std::string chosen;     // what ran
  std::size_t bytes = 0;
  double seconds = 0;
  std::uint64_t wrong = 0;          // elements, over all ranks and repetitions
  std::optional<double> predicted;  // seconds
  std::optional<Traffic> traffic;   // nullopt if this program itself sends no messages

  // n / time, and what each link carries; in GB/s, as in nccl-tests.
  double algbw() const { return static_cast<double>(bytes) / seconds / 1e9; }
  double busbw(int ranks) const { return algbw() * 2 * (ranks - 1) / ranks; }
  // The error of the prediction in percent, relative to the measured time.
  double error() const { return 100 * (*predicted / seconds - 1); }
};

// The algorithms that this run compares. Appends to `left_out` why one is missing.
std::vector<std::string> algorithms_of(const std::string& wanted, const AllReducer& reducer,
                                       const std::string& no_nccl, std::string& left_out) {
  if (wanted != "all") return {wanted};
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

// The value that element `index` must have, computed without an all-reduce.
double expected(ReduceOp op, int ranks, std::size_t index) {
  if (op == ReduceOp::max) return tracer_number(ranks - 1, index);
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += tracer_number(rank, index);
  return op == ReduceOp::sum ? sum : sum / ranks;
}

// Called on all ranks.
Result measure(Bench& bench, const std::string& algorithm, const Tensor& tensor) {
  const Communicator& comm = bench.program.comm;
  const Stream& stream = bench.program.stream;
  Result result;
  result.algorithm = algorithm;
  result.chosen = algorithm;
  result.bytes = tensor.size_bytes();
  if (algorithm != "nccl") {
    result.chosen =
        to_string(bench.reducer.chosen(kAllReduceAlgorithms.at(algorithm), result.bytes));
  }
  const auto fill = [&] {
    on_host(stream, tensor,
            [&](std::span<float> data) { fill_tracer_numbers(data, comm.rank()); });
  };
  const auto queue = [&] { all_reduce_nccl(*bench.nccl, tensor, bench.op, stream); };
  const auto wait = [&] { bench.nccl->synchronize(stream); };
  const auto operation = [&] {
    if (algorithm == "nccl") {
      queue();
      return wait();
    }
    on_host(stream, tensor, [&](std::span<float> data) {
      bench.reducer.all_reduce(data, bench.op, kAllReduceAlgorithms.at(algorithm));
    });
  };
  // Whole numbers below 2^24 are summed exactly. A larger sum or an average may be rounded in
  // each of up to `size` operations.
  const double tolerance = bench.op == ReduceOp::max ? 0.0 : comm.size() * 0x1p-24;
  std::vector<double> want(tensor.numel());
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = expected(bench.op, comm.size(), i);
  const auto check = [&] {
    result.wrong += read_on_host(stream, tensor, [&](std::span<const float> data) {
      return count_wrong(
          data, [&](std::size_t i) { return want[i]; }, tolerance);
    });
  };
  result.seconds = median_of_slowest(comm, bench.iterations, fill, operation, check);
  if (algorithm == "nccl") {
    result.seconds = seconds_in_a_row(comm, bench.iterations, queue, wait);
  }

  const std::string& chosen = result.chosen;
  if (chosen != "nccl" && chosen != "mpi" && chosen != "shared-memory") {
    fill();
    result.traffic = count_traffic(comm, operation);
    check();
  }
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &result.wrong, 1, MPI_UINT64_T, MPI_SUM, comm.get()));
  if (chosen != "nccl" && bench.link && stream.device().is_cpu()) {
    result.predicted = predict_all_reduce(kAllReduceAlgorithms.at(result.chosen),
                                          static_cast<double>(result.bytes), comm.size(),
                                          bench.reducer.costs());
  }
  return result;
}

Json row_of(const Result& result, int ranks) {
  const std::optional<Traffic>& traffic = result.traffic;
  return {
      {"algorithm", result.algorithm},
      {"chosen", result.chosen},
      {"bytes", result.bytes},
      {"ranks", ranks},
      {"time_us", significant(1e6 * result.seconds)},
      {"algbw_gbs", significant(result.algbw())},
      {"busbw_gbs", significant(result.busbw(ranks))},
      {"wrong", result.wrong},
      {"messages_per_rank", traffic ? Json(traffic->messages_per_rank) : Json()},
      {"bytes_per_rank", traffic ? Json(traffic->bytes_per_rank) : Json()},
      {"peers", traffic ? Json(traffic->peers) : Json()},
      {"predicted_us", result.predicted ? Json(significant(1e6 * *result.predicted)) : Json()}};
}

std::string time_of(const Result& result) {
  return fmt::format("{:.{}f}{}", 1e6 * result.seconds, result.seconds < 1e-3 ? 1 : 0,
                     result.wrong == 0 ? "" : " WRONG");
}

// Several algorithms: one line each, with a column for each size. The last column is the median
// error of the predictions for 64 KiB and more.
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
      if (result.predicted && result.bytes >= 64 * 1024) errors.push_back(result.error());
    }
    cells.push_back(errors.empty() ? "-" : fmt::format("{:+.0f}%", median(errors)));
    table.add(cells);
  }
  table.print(console);
}

// One algorithm: a line for each size, with its counts.
void print_details(const Console& console, int ranks, const std::vector<Result>& results) {
  Table table(
      {"size", "runs", "time us", "predicted us", "error", "busbw GB/s", "messages", "bytes"});
  for (const Result& result : results) {
    const std::optional<Traffic>& traffic = result.traffic;
    table.add({format_bytes(result.bytes), result.chosen, time_of(result),
               result.predicted ? fmt::format("{:.1f}", 1e6 * *result.predicted) : "-",
               result.predicted ? fmt::format("{:+.0f}%", result.error()) : "-",
               fmt::format("{:.2f}", result.busbw(ranks)),
               traffic ? std::to_string(traffic->messages_per_rank) : "-",
               traffic ? std::to_string(traffic->bytes_per_rank) : "-"});
  }
  table.print(console);
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Program program("all_reduce_perf", "What each all-reduce costs, by size.");
  const Communicator& comm = program.comm;

  std::string wanted = "all";
  std::string op = "sum";
  std::string no_nccl;
  bool registered = true;
  SweepOptions sweep{.min_bytes = 1024, .max_bytes = 16U << 20, .iterations = 10};
  std::optional<LinkCost> kept;  // on rank 0 only
  CommandLine& flags = program.flags;
  flags.choice("--algorithm", wanted,
               {"naive", "recursive-doubling", "ring", "ring-pipelined", "rabenseifner",
                "shared-memory", "hierarchical", "mpi", "nccl", "auto", "all"},
               "the algorithm; auto is shared memory or the one predicted to be fastest");
  flags.choice("--op", op, {"sum", "avg", "max"}, "the operation");
  sweep.declare(flags, /*smallest=*/0);
  program.declare_common();
  check_nccl_flag(program, "--algorithm", wanted, no_nccl);
  flags.advanced();
  sweep.declare_iterations(flags);
  flags.flag("--registered,!--no-registered", registered,
             "use memory that all ranks of a host can access directly (the default)");
  flags.check([&] {
    if (wanted == "shared-memory") require_host_memory("--algorithm", comm);
    if (comm.rank() == 0) kept = load_link_cost();
  });
  if (const auto exit = program.start(argc, argv)) return *exit;

  const Device device = program.device.device;
  const std::optional<LinkCost> link = share_link_cost(comm, kept);
  Bench bench{program, kReduceOps.at(op), sweep.iterations, link, AllReducer(comm, link), {}};
  std::string left_out;
  const std::vector<std::string> algorithms =
      algorithms_of(wanted, bench.reducer, no_nccl, left_out);
  if (algorithms.back() == "nccl") bench.nccl.emplace(connect_nccl(comm, device));
  const Console& console = program.console;
  console.line(describe_run(comm.size(), program.device) + left_out);

  const Shape shape{sweep.sizes().back() / sizeof(float)};
  const Tensor longest = !registered       ? Tensor(shape, device)
                         : device.is_cpu() ? bench.reducer.allocate(shape)
                         : bench.nccl      ? allocate_nccl(*bench.nccl, shape)
                                           : Tensor(shape, device);
  std::vector<std::vector<Result>> by_algorithm(algorithms.size());
  bool correct = true;
  for (const std::size_t bytes : sweep.sizes()) {
    for (std::size_t a = 0; a < algorithms.size(); ++a) {
      const Result result =
          measure(bench, algorithms[a], longest.narrow(0, bytes / sizeof(float)));
      correct = correct && result.wrong == 0;
      console.row(row_of(result, comm.size()));
      by_algorithm[a].push_back(result);
    }
  }
  console.line(
      "median times in microseconds on the slowest rank; error: how far off the prediction is");
  if (algorithms.size() == 1) {
    print_details(console, comm.size(), by_algorithm.front());
  } else {
    print_side_by_side(console, by_algorithm);
  }
  return console.verdict(comm.all_agree(correct),
                         "every element on every rank, for every algorithm and size",
                         "some rank holds a wrong result");
}
