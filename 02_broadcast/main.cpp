// Lesson 2: one rank's tensor is copied to all other ranks.
//
//   mpirun -np 4 build/bin/broadcast         four numbers per rank; the replicas of a model
//   mpirun -np 7 build/bin/broadcast --algorithm tree --root 5
//   mpirun -np 4 build/bin/broadcast_perf    what each algorithm costs, by size
#include "02_broadcast/binomial_tree.hpp"
#include "02_broadcast/broadcast.hpp"
#include "02_broadcast/flat.hpp"
#include "02_broadcast/show.hpp"
// From lesson 1, and from common/:
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/show.hpp"
#include "common/mpi_environment.hpp"
#include "common/program.hpp"

#include <string>
#include <vector>

using namespace dist;

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Program program("broadcast", "Lesson 2: one rank's tensor is copied to all ranks.");
  const Communicator& comm = program.comm;
  const std::vector<std::string> names{"flat", "tree", "pipeline", "scatter-all-gather", "mpi"};
  std::string wanted = "flat, then tree";
  int root = 0;
  program.flags.choice("--algorithm", wanted, names, "the broadcast algorithm");
  program.flags.number("--root", root, 0, comm.size() - 1, "the rank that broadcasts");
  program.declare_common();
  if (const auto exit = program.start(argc, argv)) return *exit;
  program.console.line(describe_run(comm.size(), program.device));

  bool correct = true;
  std::vector<std::string> algorithms{"flat", "tree"};
  if (program.flags.given("--algorithm")) algorithms = {wanted};
  for (const std::string& algorithm : algorithms) {
    const Tensor tensor = four_numbers(program);
    for_mpi(program.stream, tensor, [&](std::span<float> numbers) {
      if (algorithm == "flat") {
        broadcast_flat(comm, numbers, root);
      } else if (algorithm == "tree") {
        broadcast_tree(comm, numbers, root);
      } else {
        broadcast(comm, numbers, root, kBroadcastAlgorithms.at(algorithm));
      }
    });
    const std::string title = "rank " + std::to_string(root) + " broadcasts its four numbers";
    correct &= show(program, algorithm, title, tensor, [&](int i) { return 1000 * root + i; });
  }

  // [3] The main use of a broadcast in training: every rank has drawn different parameters,
  // and now all get the root's. The constructor of DistributedDataParallel does the same.
  const Tensor model = draw_model(program, comm.rank());
  for_mpi(program.stream, model, [&](auto data) { broadcast_tree<float>(comm, data, root); });
  correct &= show_replicas(program, model, root);
  return program.console.verdict(correct, "every element, on every rank",
                                 "some rank does not hold the root's numbers");
}
