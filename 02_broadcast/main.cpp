// Lesson 2: one rank's tensor is copied to all other ranks.
//
//   mpirun -np 4 build/bin/broadcast        four numbers, all algorithms, and a model
//   mpirun -np 7 build/bin/broadcast --algorithm tree --root 5
//
// Read flat.hpp, binomial_tree.hpp, pipelined_chain.hpp and scatter_all_gather.hpp first, in
// this order.
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/perf/nccl_flag.hpp"
#include "02_broadcast/broadcast.hpp"
#include "02_broadcast/connect_nccl.hpp"
#include "02_broadcast/show/acts.hpp"
#include "02_broadcast/show/share_link_cost.hpp"
#include "common/check.hpp"
#include "common/mpi_environment.hpp"

#include <fmt/core.h>

#include <optional>
#include <string>
#include <vector>

using namespace dist;

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Program program("broadcast", "Lesson 2: one rank's tensor is copied to all ranks.");
  const Communicator& comm = program.comm;

  std::string wanted = "all";
  int root = 0;
  SweepOptions sweep{.min_bytes = 1024, .max_bytes = 4U << 20, .iterations = 20};
  std::optional<LinkCost> kept;  // on rank 0 only
  std::vector<std::string> names;
  for (const auto& named : kBroadcastAlgorithms) names.emplace_back(named.name);
  names.insert(names.end(), {"nccl", "all"});
  program.flags.choice("--algorithm", wanted, names, "the broadcast algorithm");
  program.flags.number("--root", root, 0, 1 << 30, "the rank whose tensor is broadcast");
  sweep.declare(program.flags, /*smallest=*/sizeof(float));
  program.declare_common();
  std::string no_nccl;
  check_nccl_flag(program, "--algorithm", wanted, no_nccl);
  program.flags.advanced();
  sweep.declare_iterations(program.flags);
  program.flags.check([&] {
    if (root >= comm.size()) {
      throw Error(fmt::format("--root: rank {} does not exist (number of ranks: {})", root,
                              comm.size()));
    }
    if (comm.rank() == 0) kept = load_link_cost();
  });
  if (const auto exit = program.start(argc, argv)) return *exit;

  const std::optional<LinkCost> measured = share_link_cost(comm, kept);
  std::vector<std::string> algorithms{wanted};
  if (wanted == "all") {
    algorithms.assign(names.begin(), names.end() - 2);
    if (no_nccl.empty()) algorithms.emplace_back("nccl");
  }
  const Device device = program.device.device;
  std::optional<NcclCommunicator> nccl;
  if (algorithms.back() == "nccl") nccl = connect_nccl(comm, device);

  program.console.line(describe_run(comm.size(), program.device) + describe_messages(device));
  if (wanted == "all" && !no_nccl.empty()) program.console.line("no nccl: " + no_nccl);
  const Broadcasts broadcasts{program, root, sweep, measured, nccl};
  const std::string shown = wanted == "all" ? "tree" : wanted;
  bool correct = show_four_numbers(broadcasts, shown);
  correct &= show_times(broadcasts, algorithms);
  correct &= show_replicas(broadcasts, shown);
  return program.console.verdict(correct,
                                 "every element on every rank, for every algorithm and size",
                                 "some rank does not hold the root's numbers");
}
