// Lesson 3: all ranks' tensors are added up, and every rank gets the sum. Training averages the
// ranks' gradients with it. Read naive.hpp and ring.hpp next.
//
//   mpirun -np 4 build/bin/all_reduce        naive, then the ring, step by step
//   mpirun -np 7 build/bin/all_reduce --algorithm recursive-doubling --op avg
//   mpirun -np 2 build/bin/all_reduce_perf   what each algorithm costs, by size
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/show.hpp"
#include "03_all_reduce/naive.hpp"
#include "03_all_reduce/ring.hpp"
#include "03_all_reduce/show.hpp"
#include "common/mpi_environment.hpp"
#include "common/program.hpp"

#include <span>
#include <string>

using namespace dist;

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Program program("all_reduce", "Lesson 3: everybody's tensors become one sum.");
  const Communicator& comm = program.comm;
  std::string algorithm = "both";
  ReduceOp op = ReduceOp::sum;
  program.flags.choice("--algorithm", algorithm, shown_algorithms(), "both: naive, then ring");
  program.flags.choice("--op", op, kReduceOps, "the operation");
  program.declare_common();
  program.flags.check([&] { check_shown(comm, algorithm); });
  if (const auto exit = program.start(argc, argv)) return *exit;
  program.console.line(describe_run(comm.size(), program.device));

  // Number i of rank r is 1000 r + i. Afterwards, all ranks must hold the same four numbers.
  const auto expected = [&](int i) {
    const double average = 500.0 * (comm.size() - 1) + i;
    if (op == ReduceOp::max) return 1000.0 * (comm.size() - 1) + i;
    return op == ReduceOp::avg ? average : comm.size() * average;
  };
  const std::string& result = kReduceOps.of(op);
  bool correct = true;
  const auto run = [&](const std::string& name, const std::string& title, auto all_reduce) {
    const Tensor tensor = four_numbers(program);
    on_host(program.stream, tensor, all_reduce);
    correct &= show(program, name, title, tensor, expected, /*tolerance=*/0x1p-20);
  };
  if (algorithm == "both" || algorithm == "naive") {
    run("naive", "rank 0 receives all numbers and sends the " + result + " to the others",
        [&](std::span<float> data) { all_reduce_naive(comm, data, op); });
  }
  if (algorithm == "both" || algorithm == "ring") {
    run("ring", "every rank passes chunks on to the right, until all have the " + result,
        [&](std::span<float> data) { all_reduce_ring(comm, data, op); });
    correct &= draw_ring(program);  // once more, with a chunk per rank, to see each step
  } else if (algorithm != "naive") {
    run(algorithm, "the " + result + " of all ranks' numbers",
        [&](std::span<float> data) { all_reduce_by_name(comm, algorithm, data, op); });
  }
  return program.console.verdict(comm, correct, "every number on every rank", "wrong numbers");
}
