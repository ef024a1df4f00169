#include "common/mpi_environment.hpp"

#include "common/check.hpp"
#include "common/diagnostics/fatal.hpp"

#include <mpi.h>

namespace dist {

MpiEnvironment::MpiEnvironment(int& argc, char**& argv) {
  // FUNNELED: the process has other threads (the matrix library's), but this one alone calls
  // MPI.
  int provided = MPI_THREAD_SINGLE;
  MPI_CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
  if (provided < MPI_THREAD_FUNNELED) {
    throw Error("this MPI offers no MPI_THREAD_FUNNELED, which every MPI since 2.0 does");
  }
  // Communicators duplicated from these two inherit the handler.
  MPI_CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  MPI_CHECK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  int rank = 0;
  MPI_CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  install_fatal_handler(rank);
}

MpiEnvironment::~MpiEnvironment() {
  MPI_Finalize();
}

}  // namespace dist
