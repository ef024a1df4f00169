// Lesson 3: all ranks' tensors are added up, and every rank gets the sum.
//
//   mpirun -np 4 build/bin/all_reduce       four numbers, the ring step by step, all times
//   mpirun -np 7 build/bin/all_reduce --algorithm ring --op avg
//   build/bin/all_reduce --simulate 65536   a forecast for a machine you do not have
//
// Read naive.hpp, ring.hpp and recursive_doubling.hpp first, in this order. The code that
// produces the output is in show/: acts.cpp, ring_picture.cpp and forecast.cpp.
#include "02_broadcast/connect_nccl.hpp"
#include "02_broadcast/show/share_link_cost.hpp"
#include "03_all_reduce/show/acts.hpp"
#include "03_all_reduce/show/forecast.hpp"
#include "03_all_reduce/show/ring_picture.hpp"
#include "common/mpi_environment.hpp"

#include <algorithm>

using namespace dist;

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Program program("all_reduce", "Lesson 3: everybody's tensors become one sum.");
  const Communicator& comm = program.comm;

  AllReduceOptions options;
  ForecastOptions forecast;
  std::optional<LinkCost> kept;  // read on rank 0
  options.declare(program);
  forecast.declare(program.flags);
  program.flags.check([&] {
    if (comm.rank() == 0) kept = load_link_cost();
  });
  if (const auto exit = program.start(argc, argv)) return *exit;

  const Console& console = program.console;
  if (forecast.ranks > 0) {
    constexpr std::size_t kLargest = std::size_t{1} << 30;
    const bool given = program.flags.given("--max-bytes");
    if (console.speaks()) {
      show_forecast(forecast, options.sweep.min_bytes,
                    given ? options.sweep.max_bytes : kLargest, console);
    }
    return 0;
  }

  // For the predictions, costs are measured up to this size and extrapolated beyond it.
  constexpr std::size_t kMostMeasured = 64U << 20;
  const std::optional<LinkCost> measured = share_link_cost(comm, kept);
  AllReducer reducer(comm, measured);
  reducer.measure_costs(std::min(options.sweep.max_bytes, kMostMeasured));
  std::string left_out;
  const std::vector<std::string> algorithms = options.algorithms(reducer, left_out);
  std::optional<NcclCommunicator> nccl;
  if (algorithms.back() == "nccl") nccl = connect_nccl(comm, program.device.device);

  console.line(describe_run(comm.size(), program.device) + left_out);
  const AllReduces all_reduces{program, options, reducer, nccl, measured.has_value()};
  const bool all = options.algorithm == "all";
  bool correct = show_four_numbers(all_reduces, all ? "ring" : options.algorithm);
  // The default output fits on one screen, so more ranks are drawn only on request.
  constexpr int kRanksDrawnByDefault = 4;
  if (options.picture || (all && comm.size() > 1 && comm.size() <= kRanksDrawnByDefault)) {
    for (const std::string& line : ring_picture(comm)) console.line(line);
  }
  correct &= show_times(all_reduces, algorithms);
  return console.verdict(correct, "every element on every rank, for every algorithm and size",
                         "some rank holds a wrong result");
}
