#include "common/diagnostics/fatal.hpp"

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

namespace dist {
namespace {

// A terminate handler takes no argument, so the rank has to wait for it here.
int rank_of_this_process = 0;

[[noreturn]] void report_and_abort() {
  const char* what = "terminated without an exception";
  try {
    if (const std::exception_ptr current = std::current_exception()) {
      std::rethrow_exception(current);
    }
  } catch (const std::exception& error) {
    what = error.what();
    std::fprintf(stderr, "[rank %d] fatal: %s\n", rank_of_this_process, what);
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  } catch (...) {
    what = "an exception that is no std::exception";
  }
  std::fprintf(stderr, "[rank %d] fatal: %s\n", rank_of_this_process, what);
  std::fflush(stderr);
  // A rank that only left would leave the others waiting in their next receive.
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  std::abort();
}

}  // namespace

void install_fatal_handler(int rank) {
  rank_of_this_process = rank;
  std::set_terminate(report_and_abort);
}

}  // namespace dist
