// The creation and release of communicators and of MPI's windows (MPI_Win). All ranks make
// these calls together, so they are numbered with the collectives of the communicator that they
// are made from.
#include "tools/watch/communicators.hpp"
#include "tools/watch/wrap.hpp"

using namespace dist::watch;

namespace {

// Children are registered even while no mode is switched on, because a communicator made before
// a count starts must have the same id on all ranks.
int registered(MPI_Comm parent, const MPI_Comm* child, int result) {
  if (result == MPI_SUCCESS) register_child(parent, *child);
  return result;
}

// The attribute in which a window keeps the id of its communicator.
int id_key() {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    PMPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &made, nullptr);
    return made;
  }();
  return key;
}

int opened(MPI_Comm comm, const MPI_Win* window, int result) {
  void* const id = reinterpret_cast<void*>(std::uintptr_t{info_of(comm).id});
  if (result == MPI_SUCCESS) PMPI_Win_set_attr(*window, id_key(), id);
  return result;
}

// All windows from calls that the watch does not see count as one communicator's.
std::uint32_t id_of(MPI_Win window) {
  void* id = nullptr;
  int found = 0;
  PMPI_Win_get_attr(window, id_key(), &id, &found);
  return found != 0 ? static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(id)) : ~0U;
}

}  // namespace

// clang-format off
#define COMMUNICATOR(NAME, PARAMETERS, ARGUMENTS)                                              \
  DIST_CALL(MPI_##NAME, PARAMETERS, MPI_STATUS_IGNORE,                                         \
            (start_collective(call, parent, 0, kNoRoot)),                                      \
            registered(parent, child, PMPI_##NAME ARGUMENTS))
#define WINDOW(NAME, PARAMETERS, ARGUMENTS)                                                    \
  DIST_CALL(MPI_##NAME, PARAMETERS, MPI_STATUS_IGNORE,                                         \
            (start_collective(call, comm, static_cast<std::uint64_t>(bytes), kNoRoot)),        \
            opened(comm, window, PMPI_##NAME ARGUMENTS))

extern "C" {

COMMUNICATOR(Comm_dup, (MPI_Comm parent, MPI_Comm* child), (parent, child))
COMMUNICATOR(Comm_split, (MPI_Comm parent, int color, int key, MPI_Comm* child),
             (parent, color, key, child))
COMMUNICATOR(Comm_split_type,
             (MPI_Comm parent, int type, int key, MPI_Info info, MPI_Comm* child),
             (parent, type, key, info, child))
COMMUNICATOR(Comm_create, (MPI_Comm parent, MPI_Group group, MPI_Comm* child),
             (parent, group, child))
int MPI_Comm_free(MPI_Comm* comm) {
  forget(*comm);
  return PMPI_Comm_free(comm);
}

WINDOW(Win_create,
       (void* base, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, MPI_Win* window),
       (base, bytes, unit, info, comm, window))
WINDOW(Win_allocate,
       (MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* window),
       (bytes, unit, info, comm, base, window))
WINDOW(Win_allocate_shared,
       (MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* window),
       (bytes, unit, info, comm, base, window))
DIST_CALL(MPI_Win_fence, (int assertion, MPI_Win window), MPI_STATUS_IGNORE,
          (start_collective(call, id_of(window), 0, kNobody)),
          PMPI_Win_fence(assertion, window))
DIST_CALL(MPI_Win_free, (MPI_Win* window), MPI_STATUS_IGNORE,
          (start_collective(call, id_of(*window), 0, kNobody)), PMPI_Win_free(window))

}  // extern "C"
// clang-format on

#undef COMMUNICATOR
#undef WINDOW
