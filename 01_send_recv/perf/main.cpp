// What messages cost, measured: when MPI_Send begins to wait, five exchanges, alpha and beta.
//
//   mpirun -np 2 build/bin/send_recv_perf                  ping-pong: time by size
//   mpirun -np 4 build/bin/send_recv_perf --act exchange   five ways to pass numbers on
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/perf/sweep_options.hpp"
#include "common/check.hpp"
#include "common/mpi_environment.hpp"
#include "common/program.hpp"

#include <array>
#include <string>
#include <utility>

namespace dist {

// Called on all ranks. Each returns true on all ranks if every number on every rank was right.
using Show = bool(const Program&, const SweepOptions&);
Show show_ping_pong;                                              // ping_pong.cpp
Show show_eager_limit, show_exchanges, show_nccl, show_deadlock;  // ways.cpp

}  // namespace dist

using namespace dist;

// All but NCCL's need two ranks. --act all shows all but the last, which hangs.
constexpr std::array<std::pair<const char*, Show*>, 5> kActs{{
    {"pingpong", show_ping_pong},
    {"eager", show_eager_limit},
    {"exchange", show_exchanges},
    {"nccl", show_nccl},
    {"deadlock", show_deadlock},
}};

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Program program("send_recv_perf", "What messages cost, by size.");
  const Communicator& comm = program.comm;

  std::string wanted = "pingpong";
  SweepOptions sweep{.min_bytes = 4, .max_bytes = 4U << 20};
  program.flags.choice("--act", wanted,
                       {"all", "pingpong", "eager", "exchange", "nccl", "deadlock"},
                       "what to measure");
  sweep.declare(program.flags, /*smallest=*/sizeof(float));
  program.declare_common();
  std::string no_nccl;
  check_nccl_flag(program, "--act", wanted, no_nccl);
  program.flags.check([&] {
    if (comm.size() > 1 || wanted == "all" || wanted == "nccl") return;
    throw Error("--act: " + wanted + " needs two ranks");
  });
  if (const auto exit = program.start(argc, argv)) return *exit;

  const Console& console = program.console;
  const Device device = program.device.device;
  console.line(describe_run(comm.size(), program.device) + describe_messages(device));
  bool correct = true;
  for (const auto& [name, show] : kActs) {
    if (wanted == "all" ? show == show_deadlock : wanted != name) continue;
    if (show == show_nccl && !no_nccl.empty()) {
      console.line("nccl: skipped: " + no_nccl);
    } else if (show != show_nccl && comm.size() < 2) {
      console.line(std::string(name) + ": skipped, since it needs two ranks");
    } else {
      correct &= show(program, sweep);
    }
  }
  return console.verdict(comm, correct, "every number is what it must be, on every rank",
                         "at least one rank has a wrong number");
}
