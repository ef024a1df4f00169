// Makes sure that MPI connects all the processes that a launcher has started.
//
// mpirun of a different MPI, or srun without PMIx, starts N processes that cannot find each
// other. Each is then rank 0 of 1: all would verify what they alone computed and write the same
// files.
#pragma once

namespace dist::watch {

class LaunchCheck {
 public:
  // Before MPI_Init, which sets some of the environment variables that this reads.
  LaunchCheck();
  // True if MPI_Init cannot find the other processes, because the launcher says nothing of
  // them.
  bool cannot_connect() const { return processes_ > 1 && !connects_; }
  // After MPI_Init: true if this process is alone, although it was not started alone.
  bool is_cut_off() const;
  // Exits with status 2. One of the processes says why.
  [[noreturn]] void refuse() const;

 private:
  const char* launcher_ = nullptr;
  int processes_ = 0;  // that the launcher has started; 0: it does not say
  bool connects_ = true;
  bool speaks_ = true;
};

}  // namespace dist::watch
