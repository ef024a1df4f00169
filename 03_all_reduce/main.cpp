// Lesson 3: everybody's tensors become one sum, on every rank.
//
//   mpirun -np 4 build/bin/all_reduce       four numbers, then all algorithms by size
//   mpirun -np 7 build/bin/all_reduce --algorithm ring --op avg
//
// Read naive.hpp, recursive_doubling.hpp and ring.hpp first, in this order.
#include "02_broadcast/nccl_broadcast.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/nccl_all_reduce.hpp"
#include "03_all_reduce/registered_memory.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/host_copy.hpp"
#include "common/measure.hpp"
#include "common/mpi_environment.hpp"
#include "common/sweep_options.hpp"
#include "common/tracer_numbers.hpp"
#include "common/why_no_nccl.hpp"

#include <mpi.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace dist;

const std::map<std::string, ReduceOp> kOps{
    {"sum", ReduceOp::sum}, {"avg", ReduceOp::avg}, {"max", ReduceOp::max}};

struct Options {
  CommonOptions common;
  std::string algorithm = "all";
  std::string op = "sum";
  SweepOptions sweep{.min_bytes = 1024, .max_bytes = 16U << 20, .iterations = 10};
  bool registered = true;
};

struct Context {
  const Options& options;
  const Communicator& comm;
  const Console& console;
  const Stream& stream;
  std::optional<NcclCommunicator>& nccl;
};

Tensor allocate_message(const Context& context, std::size_t count) {
  const Device device = context.stream.device();
  return context.options.registered ? allocate_registered({count}, device)
                                    : Tensor({count}, device);
}

void run(const Context& context, const std::string& algorithm, const Tensor& tensor) {
  const ReduceOp op = kOps.at(context.options.op);
  if (algorithm == "nccl") {
    all_reduce_nccl(*context.nccl, tensor, op, context.stream);
    context.nccl->synchronize(context.stream);
    return;
  }
  on_host(context.stream, tensor, [&](std::span<float> data) {
    all_reduce<float>(context.comm, data, op, kAllReduceAlgorithms.at(algorithm));
  });
}

void fill(const Context& context, const Tensor& tensor) {
  on_host(context.stream, tensor,
          [&](std::span<float> data) { fill_tracer_numbers(data, context.comm.rank()); });
}

// What element `index` must be, from the formula and not from another all-reduce.
double expected(const Context& context, std::size_t index) {
  const int size = context.comm.size();
  if (context.options.op == "max") return tracer_number(size - 1, index);
  double sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += tracer_number(rank, index);
  return context.options.op == "sum" ? sum : sum / size;
}

// Wrong elements over all ranks; the same on all ranks.
std::size_t wrong_elements(const Context& context, const Tensor& tensor) {
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

// Act 1: the four numbers of lessons 1 and 2.
bool show_four_numbers(const Context& context, const std::string& algorithm) {
  const Tensor tensor = allocate_message(context, 4);
  fill(context, tensor);
  const std::vector<float> before = to_host(context.stream, tensor);
  run(context, algorithm, tensor);
  context.console.line(
      fmt::format("{}: the {} of all ranks' four numbers", algorithm, context.options.op));
  lines_in_rank_order(
      context.console, context.comm,
      fmt::format("  rank {}  {:6}  ->  {:6}", context.comm.rank(), fmt::join(before, " "),
                  fmt::join(to_host(context.stream, tensor), " ")));
  return wrong_elements(context, tensor) == 0;
}

Json row_of(const Context& context, const std::string& algorithm, std::size_t bytes,
            double seconds, std::size_t wrong) {
  const int size = context.comm.size();
  const double algbw = seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0.0;
  const std::string chosen =
      algorithm == "auto" ? to_string(choose_all_reduce(bytes, size)) : algorithm;
  return {{"algorithm", algorithm},
          {"chosen", chosen},
          {"bytes", bytes},
          {"ranks", size},
          {"time_us", significant(1e6 * seconds)},
          {"algbw_gbs", significant(algbw)},
          {"busbw_gbs", significant(algbw * 2 * (size - 1) / size)},
          {"wrong", wrong},
          {"messages_per_rank", nullptr},
          {"bytes_per_rank", nullptr},
          {"peers", nullptr},
          {"predicted_us", nullptr}};
}

// Act 2: every algorithm at every size; each is checked on every element of every rank.
bool show_times(const Context& context, const std::vector<std::string>& algorithms) {
  std::vector<std::string> header{"size"};
  header.insert(header.end(), algorithms.begin(), algorithms.end());
  Table table(header);
  bool correct = true;
  for (const std::size_t bytes : context.options.sweep.sizes()) {
    const Tensor tensor = allocate_message(context, bytes / sizeof(float));
    std::vector<std::string> cells{format_bytes(bytes)};
    for (const std::string& algorithm : algorithms) {
      const double seconds = median_of_slowest(
          context.comm, context.options.sweep.iterations, [&] { fill(context, tensor); },
          [&] { run(context, algorithm, tensor); });
      const std::size_t wrong = wrong_elements(context, tensor);
      correct = correct && wrong == 0;
      cells.push_back(fmt::format("{:.1f}{}", 1e6 * seconds, wrong == 0 ? "" : " WRONG"));
      context.console.row(row_of(context, algorithm, bytes, seconds, wrong));
    }
    table.add(cells);
  }
  context.console.line("times in microseconds, the slowest rank's");
  table.print(context.console);
  return correct;
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();

  Options options;
  DeviceChoice choice;
  CommandLine command_line("all_reduce", "Lesson 3: everybody's tensors become one sum.");
  command_line.choice("--algorithm", options.algorithm,
                      {"naive", "recursive-doubling", "ring", "mpi", "nccl", "auto", "all"},
                      "which all-reduce; auto: by size and ranks");
  command_line.choice("--op", options.op, {"sum", "avg", "max"}, "what is computed");
  options.sweep.declare(command_line, /*smallest=*/0);
  options.common.declare(command_line);
  command_line.advanced();
  options.sweep.declare_iterations(command_line);
  command_line.flag("--registered,!--no-registered", options.registered,
                    "message memory made by the message layer (the default)");
  command_line.check([&] { choice = choose_device(options.common.device, comm.local_rank()); });
  std::string no_nccl;
  command_line.check_together([&] {
    no_nccl = why_no_nccl(comm, choice.device);
    if (options.algorithm == "nccl" && !no_nccl.empty())
      throw Error("--algorithm: nccl: " + no_nccl);
  });
  if (const auto exit = parse(command_line, comm, argc, argv)) return *exit;

  const Console console(options.common.json, comm.rank() == 0);
  const Stream stream(choice.device, options.common.threads);
  std::optional<NcclCommunicator> nccl;
  std::vector<std::string> algorithms{options.algorithm};
  if (options.algorithm == "all") {
    algorithms = {"naive", "recursive-doubling", "ring", "mpi", "auto"};
    if (no_nccl.empty()) algorithms.emplace_back("nccl");
  }
  if (algorithms.back() == "nccl") nccl = connect_nccl(comm, choice.device);

  const bool left_out = options.algorithm == "all" && !no_nccl.empty();
  console.line(describe_run(comm.size(), choice) + (left_out ? "; no nccl: " + no_nccl : ""));
  const Context context{options, comm, console, stream, nccl};
  bool correct =
      show_four_numbers(context, options.algorithm == "all" ? "ring" : options.algorithm);
  correct &= show_times(context, algorithms);
  return console.verdict(correct, "every element on every rank, for every algorithm and size",
                         "some rank holds a wrong result");
}
