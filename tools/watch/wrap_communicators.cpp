// The creation and release of communicators. All ranks make these calls together, so they are
// numbered with the collectives of the parent communicator.
#include "tools/watch/communicators.hpp"
#include "tools/watch/observation.hpp"

using namespace dist::watch;

namespace {

// Children are registered even while no mode is switched on, because a communicator made before
// a count starts must have the same id on all ranks.
template <class Forward>
int observed_birth(Call call, MPI_Comm parent, const MPI_Comm* child, Forward forward) {
  int result = MPI_SUCCESS;
  if (observing()) {
    const Operation collective = start_collective(call, parent, 0, kNoRoot);
    const Observation observation(call, collective);
    result = forward();
  } else {
    result = forward();
  }
  if (result == MPI_SUCCESS) register_child(parent, *child);
  return result;
}

}  // namespace

extern "C" {

int MPI_Comm_dup(MPI_Comm parent, MPI_Comm* child) {
  return observed_birth(Call::MPI_Comm_dup, parent, child,
                        [=] { return PMPI_Comm_dup(parent, child); });
}

int MPI_Comm_split(MPI_Comm parent, int color, int key, MPI_Comm* child) {
  return observed_birth(Call::MPI_Comm_split, parent, child,
                        [=] { return PMPI_Comm_split(parent, color, key, child); });
}

int MPI_Comm_split_type(MPI_Comm parent, int type, int key, MPI_Info info, MPI_Comm* child) {
  return observed_birth(Call::MPI_Comm_split_type, parent, child,
                        [=] { return PMPI_Comm_split_type(parent, type, key, info, child); });
}

int MPI_Comm_create(MPI_Comm parent, MPI_Group group, MPI_Comm* child) {
  return observed_birth(Call::MPI_Comm_create, parent, child,
                        [=] { return PMPI_Comm_create(parent, group, child); });
}

int MPI_Comm_free(MPI_Comm* comm) {
  forget(*comm);
  return PMPI_Comm_free(comm);
}

}  // extern "C"
