// Lesson 1: a small tensor moves between ranks.
//
//   mpirun -np 4 build/bin/send_recv                  four numbers per rank, before and after
//   mpirun -np 2 build/bin/send_recv --act pingpong   what a message costs, by size
//   mpirun -np 4 build/bin/send_recv --act exchange   five ways to pass numbers on
//
// Read raw_messages.cpp first, then send_recv.hpp, then this file.
#include "01_send_recv/gpu/cuda_aware.hpp"
#include "01_send_recv/gpu/nccl_flag.hpp"
#include "01_send_recv/show/acts.hpp"
#include "01_send_recv/show/sweep_options.hpp"
#include "common/check.hpp"
#include "common/mpi_environment.hpp"

#include <array>
#include <string>
#include <vector>

namespace {

using namespace dist;

struct Act {
  const char* name;
  bool (*show)(const Program&, const SweepOptions&);
  bool by_default;
  bool in_all;  // --act all shows every act that does not hang
  int fewest_ranks;
};

constexpr std::array kActs{
    Act{"message", show_message, true, true, 1},
    Act{"ring", show_ring, true, true, 1},
    Act{"pingpong", show_ping_pong, false, true, 2},
    Act{"eager", show_eager_limit, false, true, 2},
    Act{"exchange", show_exchanges, false, true, 2},
    Act{"nccl", show_nccl, false, true, 1},
    Act{"deadlock", show_deadlock, false, false, 2},
};

}  // namespace

// [9] The main functions of all five programs take the same steps: initialise MPI, declare the
// flags, start, show, and let all ranks agree on the verdict.
int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Program program("send_recv", "Lesson 1: a small tensor moves between ranks.");

  std::string wanted = "default";
  SweepOptions sweep{.min_bytes = 4, .max_bytes = 4U << 20, .iterations = 0};
  std::vector<std::string> names{"default"};
  for (const Act& act : kActs) names.emplace_back(act.name);
  names.emplace_back("all");
  program.flags.choice("--act", wanted, names, "what to show; the default is message and ring");
  sweep.declare(program.flags, /*smallest=*/sizeof(float));
  program.declare_common();
  std::string no_nccl;
  check_nccl_flag(program, "--act", wanted, no_nccl);
  program.flags.check([&] {
    for (const Act& act : kActs) {
      if (wanted == act.name && program.comm.size() < act.fewest_ranks) {
        throw Error("--act: " + wanted + " needs two ranks");
      }
    }
  });
  if (const auto exit = program.start(argc, argv)) return *exit;

  const Console& console = program.console;
  const Device device = program.device.device;
  console.line(describe_run(program.comm.size(), program.device) + describe_messages(device));
  bool correct = true;
  for (const Act& act : kActs) {
    const bool chosen = wanted == act.name || (wanted == "all" && act.in_all) ||
                        (wanted == "default" && act.by_default);
    if (!chosen) continue;
    if (program.comm.size() < act.fewest_ranks) {
      console.line(std::string(act.name) + ": skipped, since it needs two ranks");
    } else if (act.show == show_nccl && !no_nccl.empty()) {
      console.line("nccl: skipped: " + no_nccl);
    } else {
      correct &= act.show(program, sweep);
    }
  }
  return console.verdict(correct, "every number is what it must be, on every rank",
                         "at least one rank has a wrong number");
}
