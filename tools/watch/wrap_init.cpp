// MPI's start and end. The watch starts before MPI and ends after it.
#include "tools/watch/observation.hpp"
#include "tools/watch/session.hpp"

using namespace dist::watch;

namespace {

template <class Forward>
int observed_start_of_mpi(const int* argc, char*** argv, Forward forward) {
  const bool given = argc != nullptr && argv != nullptr;  // MPI does not require them
  begin_session(given ? *argc : 0, given ? *argv : nullptr);
  int result = MPI_SUCCESS;
  {
    const Observation starting(Call::MPI_Init, std::span<const Operation>());
    result = forward();
  }
  if (result == MPI_SUCCESS) session_started();
  return result;
}

}  // namespace

extern "C" {

int MPI_Init(int* argc, char*** argv) {
  return observed_start_of_mpi(argc, argv, [=] { return PMPI_Init(argc, argv); });
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return observed_start_of_mpi(
      argc, argv, [=] { return PMPI_Init_thread(argc, argv, required, provided); });
}

int MPI_Finalize() {
  finish_recording();
  const int result = PMPI_Finalize();
  end_session();
  return result;
}

}  // extern "C"
