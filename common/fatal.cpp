#include "common/fatal.hpp"

#include "common/atomic_file.hpp"
#include "common/check.hpp"
#include "common/watch.hpp"

#include <mpi.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <string>
#include <unistd.h>

namespace dist {

static std::string describe_current_exception() try {
  if (!std::current_exception()) return "terminated without an exception";
  throw;
} catch (const std::exception& error) {
  return error.what();
} catch (...) {
  return "an exception that is not a std::exception";
}

[[noreturn]] static void report_and_abort() {
  int initialized = 0, finalized = 0, rank = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  const bool others = initialized != 0 && finalized == 0;
  if (others) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "[rank %d] fatal: %s\n", rank,
               printable(describe_current_exception()).c_str());
  std::fflush(stderr);
  release_claims();
  if (const WatchTable* const watch = watch_table()) watch->keep_trace();
  // If this rank simply exited, the others would wait forever in their next receive.
  // PMPI: the watch need not tell anybody that the program calls MPI_Abort.
  if (others) PMPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  std::_Exit(EXIT_FAILURE);
}

void install_fatal_handler() {
  std::set_terminate(report_and_abort);
  // Writing more than ulimit -f allows must fail, with an error that names the file.
  std::signal(SIGXFSZ, SIG_IGN);
  // A file opened for a checkpoint, for example, must not get descriptor 1. If a standard
  // descriptor is closed, open it in the wrong direction, so that it stays unusable.
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) < 0) ::open("/dev/null", number == 0 ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace dist
