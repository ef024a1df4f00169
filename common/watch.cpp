#include "common/watch.hpp"

#include "common/check.hpp"
#include "common/nvtx.hpp"

#include <dlfcn.h>

namespace dist {

const WatchTable* watch_table() {
  static const auto* const table =
      static_cast<const WatchTable*>(::dlsym(RTLD_DEFAULT, "dist_watch_table"));
  return table;
}

CallScope::CallScope(std::string_view operation, std::string_view subject) {
  begin_profiler_range(operation, subject);
  if (const WatchTable* const watch = watch_table()) watch->begin_call(operation, subject);
}

CallScope::~CallScope() {
  if (const WatchTable* const watch = watch_table()) watch->end_call();
  end_profiler_range();
}

WaitScope::WaitScope(std::string_view what, const Communicator& comm, int peer) {
  const MPI_Comm others = comm.size() > 1 ? comm.get() : MPI_COMM_NULL;
  if (const WatchTable* const watch = watch_table()) watch->begin_wait(what, others, peer);
}

WaitScope::~WaitScope() {
  if (const WatchTable* const watch = watch_table()) watch->end_wait();
}

void StartScope::set(bool on) {
  if (const WatchTable* const watch = watch_table()) watch->set_starting(on);
}

void set_patience(Patience patience) {
  if (const WatchTable* const watch = watch_table()) watch->set_patience(patience);
}

void name_this_thread(std::string_view name) {
  if (const WatchTable* const watch = watch_table()) watch->name_thread(name);
}

std::optional<Traffic> count_traffic(const Communicator& comm,
                                     const std::function<void()>& body,
                                     std::string_view subject) {
  const WatchTable* const watch = watch_table();
  if (watch == nullptr || !watch->all_count()) {
    body();
    return std::nullopt;
  }
  if (!watch->start_count(subject)) throw Error("calls to count_traffic cannot be nested");
  try {
    body();
  } catch (...) {
    watch->end_count(comm.get(), nullptr);
    throw;
  }
  Traffic traffic;
  MPI_CHECK(watch->end_count(comm.get(), &traffic));
  return traffic;
}

}  // namespace dist
