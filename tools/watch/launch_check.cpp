#include "tools/watch/launch_check.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace dist::watch {
namespace {

struct Variables {
  const char* launcher;
  const char* size;                  // the variable with the number of processes
  const char* rank;                  // and the one with this process's place among them
  const char* connection = nullptr;  // without this one, MPI cannot connect the processes
};

// The first launcher that gives a number decides, because mpirun may run inside a step of
// Slurm, for example. A batch script of Slurm is task 0 of no step. ./learn says how many
// processes it asked mpirun for.
constexpr Variables kLaunchers[] = {
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"MPICH's mpirun", "PMI_SIZE", "PMI_RANK"},
    {"Slurm's srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "PMIX_RANK"},
    {"a launcher with PMIx", "PMIX_SIZE", "PMIX_RANK"},
    {"the mpirun on the PATH", "LEARN_RANKS", "LEARN_RANK"}};

int number(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : 0;
}

}  // namespace

LaunchCheck::LaunchCheck() {
  for (const auto& [launcher, size_variable, rank_variable, connection] : kLaunchers) {
    const int size = number(size_variable);
    const int rank = number(rank_variable);
    if (size == 0 && rank == 0) continue;
    launcher_ = launcher;
    processes_ = std::max(size, rank + 1);
    speaks_ = rank == 0 || size == 0;
    connects_ = connection == nullptr || std::getenv(connection) != nullptr;
    return;
  }
}

bool LaunchCheck::is_cut_off() const {
  int size = 0;
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  return size == 1 && processes_ > 1;
}

void LaunchCheck::refuse() const {
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  PMPI_Get_library_version(library, &length);
  const std::string mpi = library;
  if (speaks_) {
    std::fprintf(stderr,
                 "error: %s started %d processes, but each of them is alone in its MPI world, "
                 "because the program belongs to %s: start it with that MPI's mpirun or, under "
                 "Slurm, with srun --mpi=pmix\n",
                 launcher_, processes_, mpi.substr(0, mpi.find_first_of(",\n")).c_str());
  }
  std::exit(2);
}

}  // namespace dist::watch
