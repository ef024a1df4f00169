// The watch starts before MPI and ends after it: MPI's own start and end, and the table of
// functions that programs call (common/watch.hpp).
#include "common/watch.hpp"
#include "tools/watch/observe/call_hooks.hpp"
#include "tools/watch/observe/host_boards.hpp"
#include "tools/watch/report/watch_thread.hpp"
#include "tools/watch/started_alone.hpp"
#include "tools/watch/trace/trace_writer.hpp"
#include "tools/watch/wait/patience.hpp"

#include <mpi.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <exception>
#include <string_view>
#include <thread>

namespace dist::watch {
namespace {

struct Session {
  double timeout_s;
  HostBoards boards;
  std::jthread watch{};

  bool traces() const { return !boards.trace.empty(); }
};

std::atomic<void (*)(const char* call)> before_end = nullptr;  // WatchTable::call_before_end

Session* session = nullptr;  // also nullptr if neither the watch nor the trace is switched on

unsigned duties_of_all = ~0U;  // WatchTable::agree_on_duties

bool all_have(unsigned duty) {
  return (duties_of_all & duty) != 0;
}

WatchFlags given_flags;  // WatchTable::set_flags

// Called before MPI starts. Sends no message.
void begin_session() {
  if (given_flags.strict) mode |= kStrict;
  if (given_flags.timeout_s == 0 && given_flags.trace.empty()) return;
  session = new Session{given_flags.timeout_s, HostBoards(given_flags.trace)};
  std::atexit([] { session->boards.remove_name(); });
  the_board = session->boards.mine;
  mode |= session->traces() ? kBoard | kTrace : kBoard;
  my_thread()->name = intern("main");  // also makes this thread the first one of the trace
  if (given_flags.timeout_s > 0)
    session->watch = start_watch(session->boards, given_flags.timeout_s);
}

// Called when MPI has started. Sends no message: other ranks may run without the watch.
void mpi_has_started() {
  if (session == nullptr) return;
  RankBoard& mine = *session->boards.mine;
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  mine.rank = rank;
  int size = 0;
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  mine.world_size = size;
  info_of(MPI_COMM_WORLD);  // notes on the board that this rank is a member
  mine.working = true;
}

// Called on all ranks before MPI_Finalize. Gathers and writes the trace.
void finish_recording() {
  if (session == nullptr) return;
  if (all_have(WatchTable::kObserves)) {
    // From here on, this rank counts as being in MPI_Finalize if others still wait for it.
    const Observation finalizing(Call::MPI_Finalize, {});
    PMPI_Barrier(MPI_COMM_WORLD);
  }
  mode = 0;
  session->boards.mine->working = false;
  if (!session->traces() || !all_have(WatchTable::kTraces)) return;
  session->watch = {};  // no rank moves while a large file is written
  try {
    write_trace_of_all_ranks(session->boards);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fatal: --trace: %s\n", error.what());
    PMPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
}

void set_starting(bool on) {
  static std::atomic<int> scopes = 0;
  scopes += on ? 1 : -1;
  if (session == nullptr) return;
  session->boards.mine->working = scopes == 0;
  if (!on) session->boards.mine->starts.fetch_add(1);
}

void flags_are_read(bool accepted) {
  if (session == nullptr) return;
  if (accepted) {
    // Start-up is the same in every program, so counts and the trace begin with the program's
    // own calls.
    session->boards.mine->reset();
    if (session->traces()) align_clocks(session->boards);  // so do all ranks
  } else {
    mode &= ~unsigned{kTrace};
    session->boards.trace.clear();
  }
}

}  // namespace

}  // namespace dist::watch

using namespace dist::watch;

extern "C" {

int MPI_Init(int* argc, char*** argv) {
  int provided = MPI_THREAD_SINGLE;
  return MPI_Init_thread(argc, argv, MPI_THREAD_SINGLE, &provided);
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const Launch launch;
  if (launch.processes > 1 && !launch.connects) launch.refuse();
  begin_session();
  count_processors();
  if (void* const runs = ::dlsym(RTLD_DEFAULT, "dist_memory_program_runs")) {
    reinterpret_cast<void (*)()>(runs)();  // tools/memory/: all libraries are loaded
  }
  int result = MPI_SUCCESS;
  {
    const Observation starting(Call::MPI_Init, {});
    result = PMPI_Init_thread(argc, argv, required, provided);
  }
  if (result != MPI_SUCCESS) return result;
  int size = 0;
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1 && launch.processes > 1) {
    PMPI_Finalize();
    if (session != nullptr) session->watch = {};
    launch.refuse();
  }
  mpi_has_started();
  return result;
}

int MPI_Abort(MPI_Comm comm, int status) {
  if (const auto escaped = before_end.load()) escaped("called MPI_Abort");
  return PMPI_Abort(comm, status);
}

int MPI_Finalize() {
  if (const auto escaped = before_end.load()) escaped("called MPI_Finalize");
  finish_recording();
  const int result = PMPI_Finalize();
  if (session != nullptr) session->watch = {};
  return result;
}

extern "C" [[gnu::visibility("default")]] const dist::WatchTable dist_watch_table;
const dist::WatchTable dist_watch_table{
    .set_flags = [](const dist::WatchFlags& flags) { given_flags = flags; },
    .begin_call = begin_call_scope,
    .end_call = end_call_scope,
    .begin_wait = begin_wait_scope,
    .end_wait = end_wait_scope,
    .set_starting = set_starting,
    .limit_computing =
        [](bool on) {
          if (session != nullptr) session->boards.mine->computing_is_limited = on;
        },
    .timeout_s = [] { return session != nullptr ? session->timeout_s : 0; },
    .name_thread =
        [](std::string_view name) {
          if (ThreadRecord* const record = my_thread()) record->name = intern(name);
        },
    .set_patience = set_patience,
    .duties =
        [] {
          unsigned duties = dist::WatchTable::kCounts;
          if (session != nullptr) duties |= dist::WatchTable::kObserves;
          if (session != nullptr && session->traces()) duties |= dist::WatchTable::kTraces;
          return duties;
        },
    .agree_on_duties = [](unsigned of_all) { duties_of_all = of_all; },
    .all_count = [] { return all_have(dist::WatchTable::kCounts); },
    .start_count = start_count,
    .end_count = end_count,
    .flags_are_read = flags_are_read,
    .finish_trace =
        [] {
          if (session != nullptr && session->traces()) finish_recording();
        },
    .keep_trace =
        [] {
          try {
            if (session != nullptr) write_trace_of_host(session->boards);
          } catch (const std::exception&) {  // report only the failure that ends the program
          }
        },
    .call_before_end = [](void (*escaped)(const char*)) { before_end = escaped; },
    .call_at_sends =
        [](void (*sees)(const void* data, std::uint64_t bytes)) { sees_sends = sees; },
    .open_requests = open_requests,
    .set_strict = [](bool on) { on ? mode |= kStrict : mode &= ~unsigned{kStrict}; },
    .is_observing = observing,
};

}  // extern "C"
