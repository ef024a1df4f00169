// Finds out that a launcher has started several processes of which each is alone.
//
// mpirun of a different MPI, or srun without PMIx, starts N processes that cannot find each
// other. Each is then rank 0 of 1: all would verify what they alone computed and write the same
// files.
#pragma once

namespace dist::watch {

// The processes that a launcher has started together.
struct Launch {
  const char* launcher = nullptr;
  int processes = 0;     // 0: the launcher does not say how many
  bool connects = true;  // whether it tells MPI_Init of the other processes
  bool speaks = true;    // whether this process reports a problem, so that only one does

  // Called before MPI_Init, which sets some of the environment variables that this reads.
  Launch();
  // Called if this process is alone, although it was not started alone. Exits with status 2.
  [[noreturn]] void refuse() const;
};

}  // namespace dist::watch
