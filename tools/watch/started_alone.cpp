#include "tools/watch/started_alone.hpp"

#include "tools/watch/observe/host_boards.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <unistd.h>

namespace dist::watch {
namespace {

struct Launcher {
  const char* name;
  const char* size;                  // the variable with the number of processes
  const char* rank;                  // and the one with this process's place among them
  const char* connection = nullptr;  // without this one, MPI cannot connect the processes
  bool slurm = false;                // whether Slurm, too, may set these variables
};

// The first launcher that gives a number decides, because mpirun may run inside a step of
// Slurm, for example. A batch script of Slurm is task 0 of no step. ./learn says how many
// processes it asked mpirun for.
constexpr Launcher kLaunchers[] = {
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"MPICH's mpirun", "PMI_SIZE", "PMI_RANK", nullptr, true},
    {"Slurm's srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "PMIX_RANK", true},
    {"a launcher with PMIx", "PMIX_SIZE", "PMIX_RANK", nullptr, true},
    {"the mpirun on the PATH", "LEARN_RANKS", "LEARN_RANK"}};

// Whether somebody has typed the program's name in a shell that `srun --pty` has started.
// Slurm's variables then tell of the shell's tasks, not of this program.
bool is_in_shell_of_srun() {
  if (std::getenv("SLURM_PTY_PORT") == nullptr) return false;
  std::ifstream file("/proc/" + std::to_string(::getppid()) + "/comm");
  std::string parent;
  return std::getline(file, parent) && parent != "slurmstepd" && !parent.starts_with("hydra");
}

}  // namespace

Launch::Launch() {
  const bool in_shell = is_in_shell_of_srun();
  for (const Launcher& by : kLaunchers) {
    if (in_shell && by.slurm) continue;
    const int size = number_in(by.size);
    const int rank = number_in(by.rank);
    if (size == 0 && rank == 0) continue;
    launcher = by.name;
    processes = std::max(size, rank + 1);
    connects = by.connection == nullptr || std::getenv(by.connection) != nullptr;
    speaks = rank == 0 || size == 0;
    return;
  }
}

void Launch::refuse() const {
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  PMPI_Get_library_version(library, &length);
  std::string mpi = library;
  std::ranges::replace(mpi, '\t', ' ');
  if (speaks) {
    std::fprintf(stderr,
                 "error: %s started %d processes, but each of them is alone in its MPI world, "
                 "because the program belongs to %s: start it with that MPI's mpirun or, "
                 "under Slurm, with srun --mpi=pmix\n",
                 launcher, processes, mpi.substr(0, mpi.find_first_of(",\n")).c_str());
  }
  std::exit(2);
}

}  // namespace dist::watch
