// Lesson 2: one rank's tensor is copied to all others ([1] flat.hpp, [2] binomial_tree.hpp).
//
//   mpirun -np 4 build/bin/broadcast         four numbers per rank; the replicas of a model
//   mpirun -np 7 build/bin/broadcast --algorithm tree --root 5
//   mpirun -np 4 build/bin/broadcast_perf    what each algorithm costs, by size
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/show.hpp"
#include "02_broadcast/binomial_tree.hpp"
#include "02_broadcast/broadcast.hpp"
#include "02_broadcast/flat.hpp"
#include "02_broadcast/show.hpp"
#include "common/mpi_environment.hpp"
#include "common/program.hpp"

#include <span>
#include <string>

using namespace dist;

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Program program("broadcast", "Lesson 2: one rank's tensor is copied to all ranks.");
  const Communicator& comm = program.comm;
  std::string algorithm = "both";
  int root = 0;
  program.flags.choice("--algorithm", algorithm, shown_broadcasts(), "both: flat, then tree");
  program.flags.number("--root", root, 0, comm.size() - 1, "the rank that broadcasts");
  program.declare_common();
  if (const auto exit = program.start(argc, argv)) return *exit;
  program.console.line(describe_run(comm.size(), program.device));

  bool correct = true;
  const auto run = [&](const std::string& name, const std::string& title, auto broadcast) {
    const Tensor tensor = four_numbers(program);
    for_mpi(program.stream, tensor, broadcast);
    correct &= show(program, name, title, tensor, [&](int i) { return 1000 * root + i; });
  };
  const auto rounds = [](int count) { return " (rounds: " + std::to_string(count) + ")"; };
  if (algorithm == "both" || algorithm == "flat") {
    run("flat", "the root sends its four numbers to every rank" + rounds(comm.size() - 1),
        [&](std::span<float> numbers) { broadcast_flat(comm, numbers, root); });
  }
  if (algorithm == "both" || algorithm == "tree") {
    run("tree", "every rank that has them passes them on" + rounds(tree_rounds(comm.size())),
        [&](std::span<float> numbers) { broadcast_tree(comm, numbers, root); });
    print_tree_rows(program, root);  // with --json
  } else if (algorithm != "flat") {
    run(algorithm, "the root broadcasts its four numbers", [&](std::span<float> numbers) {
      broadcast(comm, numbers, root, kBroadcastAlgorithms.at(algorithm));
    });
  }

  // [3] The main use of a broadcast in training: every rank has drawn different parameters,
  // and now all get the root's. The constructor of DistributedDataParallel does the same.
  const Tensor model = draw_model(program, comm.rank());
  for_mpi(program.stream, model, [&](auto data) { broadcast_tree<float>(comm, data, root); });
  correct &= show_replicas(program, model, root);
  return program.console.verdict(comm, correct, "every element, on every rank",
                                 "some rank does not hold the root's numbers");
}
