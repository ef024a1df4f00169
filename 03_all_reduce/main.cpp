// Lesson 3: everybody's tensors become one sum, on every rank.
//
//   mpirun -np 4 build/bin/all_reduce       four numbers, the ring drawn, then all by size
//
//   mpirun -np 7 build/bin/all_reduce --algorithm ring --op avg
//
//   build/bin/all_reduce --simulate 65536   machines that are not here
//
// Read naive.hpp, recursive_doubling.hpp and ring.hpp first, in this order. What the program
// shows stands in program.cpp, ring_picture.cpp and forecast.cpp.
#include "02_broadcast/nccl_broadcast.hpp"
#include "02_broadcast/show/share_link_cost.hpp"
#include "03_all_reduce/break_it/experiments.hpp"
#include "03_all_reduce/show/forecast.hpp"
#include "03_all_reduce/show/program.hpp"
#include "03_all_reduce/show/ring_picture.hpp"
#include "common/mpi_environment.hpp"
#include "common/why_no_nccl.hpp"

#include <fmt/core.h>

namespace {

using namespace dist;

// The default output stays within a screen: more ranks are drawn on request.
constexpr int kRanksDrawnByDefault = 4;

void declare(CommandLine& command_line, AllReduceOptions& options) {
  command_line.choice("--algorithm", options.algorithm,
                      {"naive", "recursive-doubling", "ring", "ring-pipelined", "rabenseifner",
                       "shared-memory", "mpi", "nccl", "auto", "all"},
                      "which all-reduce; auto: by predicted time");
  command_line.choice("--op", options.op, {"sum", "avg", "max"}, "what is computed");
  options.sweep.declare(command_line, /*smallest=*/0);
  options.common.declare(command_line);
  command_line.flag("--picture", options.picture, "draw the ring, also for more than 4 ranks");
  command_line.advanced();
  options.sweep.declare_iterations(command_line);
  command_line.flag("--registered,!--no-registered", options.registered,
                    "message memory made by the message layer (the default)");
}

// What this run compares; adds to `left_out` why one of them is not among them.
std::vector<std::string> algorithms_of(const AllReduceOptions& options,
                                       const Communicator& comm, const std::string& no_nccl,
                                       std::string& left_out) {
  if (options.algorithm != "all") return {options.algorithm};
  std::vector<std::string> algorithms{"naive", "recursive-doubling", "rabenseifner", "ring",
                                      "ring-pipelined"};
  if (const std::string obstacle = why_no_host_memory(comm); obstacle.empty()) {
    algorithms.emplace_back("shared-memory");
  } else {
    left_out += "; no shared-memory: " + obstacle;
  }
  algorithms.insert(algorithms.end(), {"mpi", "auto"});
  if (no_nccl.empty()) {
    algorithms.emplace_back("nccl");
  } else {
    left_out += "; no nccl: " + no_nccl;
  }
  return algorithms;
}

// Lesson 1's measurement of what messages cost, in the form that the cost model takes.
StepCosts costs_of(const std::optional<LinkCost>& measured) {
  StepCosts costs = guessed_costs();
  if (!measured) return costs;
  costs.message = [link = *measured](double bytes) {
    return link.message_seconds(static_cast<std::size_t>(bytes));
  };
  costs.exchange = [link = *measured](double bytes) {
    return link.exchange_seconds(static_cast<std::size_t>(bytes));
  };
  return costs;
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();

  AllReduceOptions options;
  ForecastOptions forecast;
  DeviceChoice choice;
  std::optional<LinkCost> kept;
  CommandLine command_line("all_reduce", "Lesson 3: everybody's tensors become one sum.");
  declare(command_line, options);
  forecast.declare(command_line);
  BreakOption broken(kAllReduceExperiments);
  broken.declare(command_line, comm);
  command_line.check([&] {
    choice = choose_device(options.common.device, comm.local_rank());
    if (options.algorithm == "shared-memory") require_host_memory("--algorithm", comm);
    if (comm.rank() == 0) kept = load_link_cost();
    if (options.picture && (comm.size() < 2 || comm.size() > kMostPictureRanks)) {
      throw Error(fmt::format("--picture: draws 2 to {} ranks", kMostPictureRanks));
    }
  });
  std::string no_nccl;
  command_line.check_together([&] {
    no_nccl = why_no_nccl(comm, choice.device);
    if (options.algorithm == "nccl" && !no_nccl.empty()) {
      throw Error("--algorithm: nccl: " + no_nccl);
    }
  });
  if (const auto exit = parse(command_line, comm, argc, argv)) return *exit;

  const Console console(options.common.json, comm.rank() == 0);
  if (forecast.ranks > 0) {
    constexpr std::size_t kLargest = std::size_t{1} << 30;
    const bool given = command_line.given("--max-bytes");
    if (console.speaks()) {
      show_forecast(forecast, options.sweep.min_bytes,
                    given ? options.sweep.max_bytes : kLargest, console);
    }
    return 0;
  }

  const Stream stream(choice.device, options.common.threads);
  if (broken.wanted()) return broken.run({console, comm, stream, options.common.seed});
  std::string left_out;
  const std::vector<std::string> algorithms = algorithms_of(options, comm, no_nccl, left_out);
  std::optional<NcclCommunicator> nccl;
  if (algorithms.back() == "nccl") nccl = connect_nccl(comm, choice.device);
  // For the predictions; beyond this size they are extrapolated.
  constexpr std::size_t kMostMeasured = 64U << 20;
  const std::optional<LinkCost> measured = share_link_cost(comm, kept);
  AllReducer reducer(comm, costs_of(measured));
  reducer.measure_costs(std::min(options.sweep.max_bytes, kMostMeasured));

  console.line(describe_run(comm.size(), choice) + left_out);
  const AllReduceContext context{
      options, comm, console, stream, reducer, nccl, measured.has_value()};
  bool correct =
      show_four_numbers(context, options.algorithm == "all" ? "ring" : options.algorithm);
  if (options.picture ||
      (options.algorithm == "all" && comm.size() > 1 && comm.size() <= kRanksDrawnByDefault)) {
    for (const std::string& line : ring_picture(comm)) console.line(line);
  }
  correct &= show_times(context, algorithms);
  return console.verdict(correct, "every element on every rank, for every algorithm and size",
                         "some rank holds a wrong result");
}
