// What each all-reduce costs, MPI's and NCCL's included: times, counts and predictions, by
// size.
//
//   mpirun -np 2 build/bin/all_reduce_perf
//   mpirun -np 4 build/bin/all_reduce_perf --algorithm ring --json --max-bytes 65536
#include "01_send_recv/perf/nccl_flag.hpp"
#include "01_send_recv/perf/sweep_options.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "02_broadcast/perf/share_link_cost.hpp"
#include "03_all_reduce/perf/measure.hpp"
#include "common/mpi_environment.hpp"

#include <nlohmann/json.hpp>

using namespace dist;

namespace {

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
  std::optional<LinkCost> kept;  // what lesson 1 has measured; read on rank 0
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

  const std::optional<LinkCost> link = share_link_cost(comm, kept);
  AllReducer reducer(comm, link);
  std::string left_out;
  const std::vector<std::string> algorithms = algorithms_of(wanted, reducer, no_nccl, left_out);
  std::optional<NcclCommunicator> nccl;
  if (algorithms.back() == "nccl") nccl.emplace(connect_nccl(comm, program.device.device));
  const Console& console = program.console;
  console.line(describe_run(comm.size(), program.device) + left_out);

  const Bench bench{program, kReduceOps.at(op), reducer,
                    nccl,    sweep.iterations,  link.has_value()};
  const Tensor longest = allocate_message(bench, sweep.sizes().back(), registered);
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
  print_table(console, comm.size(), by_algorithm);
  return console.verdict(correct, "every element on every rank, for every algorithm and size",
                         "some rank holds a wrong result");
}
