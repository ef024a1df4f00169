// MPI's windows (MPI_Win). Their creation, fences and release are collectives on the
// communicator from which they were made.
#include "tools/watch/communicators.hpp"
#include "tools/watch/observation.hpp"

#include <mutex>
#include <unordered_map>

using namespace dist::watch;

namespace {

struct Windows {
  std::mutex mutex;
  std::unordered_map<MPI_Win, std::uint32_t> communicators;  // by id
};

Windows& windows() {
  static auto* const the_windows = new Windows;
  return *the_windows;
}

template <class Forward>
int observed_window_birth(Call call, MPI_Aint bytes, MPI_Comm comm, const MPI_Win* window,
                          Forward forward) {
  if (!observing()) return forward();
  const Operation collective =
      start_collective(call, comm, static_cast<std::uint64_t>(bytes), kNoRoot);
  const Observation observation(call, collective);
  const int result = forward();
  if (result == MPI_SUCCESS) {
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
  const Operation collective = start_collective(call, comm, 0, kEverybody);
  const Observation observation(call, collective);
  return forward();
}

}  // namespace

extern "C" {

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
