#include "common/mpi_environment.hpp"

#include "common/atomic_file.hpp"
#include "common/build_config.hpp"
#include "common/check.hpp"
#include "common/fatal.hpp"
#include "common/watch_flags.hpp"

#include <mpi.h>

#include <string>

namespace dist {

MpiEnvironment::MpiEnvironment(int& argc, char**& argv) {
  install_fatal_handler();
  if (const WatchTable* const watch = watch_table()) {
    watch->set_flags(read_watch_flags(argc, argv));
  }
  // SERIALIZED: several threads call MPI, but never two at a time (05, communication_thread).
  // The streams of emulated NCCL are threads that may call MPI at any time.
  constexpr int kRequired = DIST_CUDA_EMULATED ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED;
  int provided = MPI_THREAD_SINGLE;
  MPI_CHECK(MPI_Init_thread(&argc, &argv, kRequired, &provided));
  if (provided < kRequired) {
    throw Error("this MPI provides thread level " + std::to_string(provided) + ", but " +
                std::to_string(kRequired) + " is needed");
  }
  // Duplicates of these two communicators inherit the handler.
  MPI_CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  MPI_CHECK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
}

MpiEnvironment::~MpiEnvironment() {
  release_claims();
  MPI_Finalize();
}

}  // namespace dist
