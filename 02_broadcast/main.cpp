// Lesson 2: one rank's tensor becomes everybody's.
//
//   mpirun -np 4 build/bin/broadcast        four numbers, all algorithms, then a model
//   mpirun -np 7 build/bin/broadcast --algorithm tree --root 5
//
// Read flat.hpp, binomial_tree.hpp, pipelined_chain.hpp and scatter_all_gather.hpp first, in
// this order.
#include "02_broadcast/break_it/experiments.hpp"
#include "02_broadcast/broadcast.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "02_broadcast/show/acts.hpp"
#include "02_broadcast/show/share_link_cost.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/cuda_aware.hpp"
#include "common/mpi_environment.hpp"
#include "common/why_no_nccl.hpp"

#include <fmt/core.h>

#include <optional>
#include <string>
#include <vector>

using namespace dist;

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();

  CommonOptions common;
  std::string wanted = "all";
  int root = 0;
  SweepOptions sweep{.min_bytes = 1024, .max_bytes = 4U << 20, .iterations = 20};
  DeviceChoice choice;
  std::optional<LinkCost> kept;  // rank 0's
  CommandLine command_line("broadcast", "Lesson 2: one rank's tensor becomes everybody's.");
  std::vector<std::string> names;
  for (const auto& named : kBroadcastAlgorithms) names.emplace_back(named.name);
  names.insert(names.end(), {"nccl", "all"});
  command_line.choice("--algorithm", wanted, names, "which broadcast");
  command_line.number("--root", root, 0, 1 << 30, "the rank whose tensor it is");
  sweep.declare(command_line, /*smallest=*/sizeof(float));
  common.declare(command_line);
  BreakOption broken(kBroadcastExperiments);
  broken.declare(command_line, comm);
  command_line.advanced();
  sweep.declare_iterations(command_line);
  command_line.check([&] {
    if (root >= comm.size()) {
      throw Error(fmt::format("--root: there is no rank {} among {}", root, comm.size()));
    }
    choice = choose_device(common.device, comm.local_rank());
    if (comm.rank() == 0) kept = load_link_cost();
  });
  std::string no_nccl;
  command_line.check_together([&] {
    no_nccl = why_no_nccl(comm, choice.device);
    if (wanted == "nccl" && !no_nccl.empty()) throw Error("--algorithm: nccl: " + no_nccl);
  });
  if (const auto exit = parse(command_line, comm, argc, argv)) return *exit;

  const Console console(common.json, comm.rank() == 0);
  const Stream stream(choice.device, common.threads);
  if (broken.wanted()) return broken.run({console, comm, stream, common.seed});
  const std::optional<LinkCost> measured = share_link_cost(comm, kept);
  std::vector<std::string> algorithms{wanted};
  if (wanted == "all") {
    algorithms.assign(names.begin(), names.end() - 2);
    if (no_nccl.empty()) algorithms.emplace_back("nccl");
  }
  std::optional<NcclCommunicator> nccl;
  if (algorithms.back() == "nccl") nccl = connect_nccl(comm, choice.device);

  const bool left_out = wanted == "all" && !no_nccl.empty();
  console.line(describe_run(comm.size(), choice) + describe_messages(choice.device) +
               (left_out ? "; no nccl: " + no_nccl : ""));
  const Context context{comm, console, stream, root, common.seed, sweep, measured, nccl};
  const std::string shown = wanted == "all" ? "tree" : wanted;
  bool correct = show_four_numbers(context, shown);
  correct &= show_times(context, algorithms);
  correct &= show_replicas(context, shown);
  return console.verdict(correct, "every element on every rank, for every algorithm and size",
                         "some rank does not hold root's numbers");
}
