// The creation and release of communicators and of MPI's windows (MPI_Win). All ranks make
// these calls together, so they are numbered with the collectives of the communicator that they
// are made from.
#include "tools/watch/call_hooks.hpp"
#include "tools/watch/communicators.hpp"

#include <mutex>
#include <unordered_map>

using namespace dist::watch;

namespace {

// Children are registered even while no mode is switched on, because a communicator made before
// a count starts must have the same id on all ranks.
template <class Forward>
int observed_birth(Call call, MPI_Comm parent, const MPI_Comm* child, Forward forward) {
  const int result = observed_collective(
      call, parent, kNoRoot, [] { return std::uint64_t{0}; }, forward);
  if (result == MPI_SUCCESS) register_child(parent, *child);
  return result;
}

struct Windows {
  std::mutex mutex;
  std::unordered_map<MPI_Win, std::uint32_t> communicators;  // by id
};

Windows& windows() {
  static auto* const the_windows = new Windows;  // threads may outlive static objects
  return *the_windows;
}

template <class Forward>
int observed_window_birth(Call call, MPI_Aint bytes, MPI_Comm comm, const MPI_Win* window,
                          Forward forward) {
  const int result = observed_collective(
      call, comm, kNoRoot, [=] { return static_cast<std::uint64_t>(bytes); }, forward);
  if (result == MPI_SUCCESS && observing()) {
    const std::lock_guard lock(windows().mutex);
    windows().communicators[*window] = info_of(comm).id;
  }
  return result;
}

template <class Forward>
int observed_use(Call call, MPI_Win window, Forward forward) {
  if (!observing()) return forward();
  std::uint32_t comm = 0;
  {
    const std::lock_guard lock(windows().mutex);
    const auto found = windows().communicators.find(window);
    if (found != windows().communicators.end()) comm = found->second;
    if (call == Call::MPI_Win_free) windows().communicators.erase(window);
  }
  if (comm == 0) return forward();  // made while no mode was switched on
  const Observation observation(call, start_collective(call, comm, 0));
  return forward();
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

int MPI_Win_create(void* base, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm,
                   MPI_Win* window) {
  return observed_window_birth(Call::MPI_Win_create, bytes, comm, window, [=] {
    return PMPI_Win_create(base, bytes, unit, info, comm, window);
  });
}

int MPI_Win_allocate(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void* base,
                     MPI_Win* window) {
  return observed_window_birth(Call::MPI_Win_allocate, bytes, comm, window, [=] {
    return PMPI_Win_allocate(bytes, unit, info, comm, base, window);
  });
}

int MPI_Win_allocate_shared(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void* base,
                            MPI_Win* window) {
  return observed_window_birth(Call::MPI_Win_allocate_shared, bytes, comm, window, [=] {
    return PMPI_Win_allocate_shared(bytes, unit, info, comm, base, window);
  });
}

int MPI_Win_fence(int assertion, MPI_Win window) {
  return observed_use(Call::MPI_Win_fence, window,
                      [=] { return PMPI_Win_fence(assertion, window); });
}

int MPI_Win_free(MPI_Win* window) {
  return observed_use(Call::MPI_Win_free, *window, [=] { return PMPI_Win_free(window); });
}

}  // extern "C"
