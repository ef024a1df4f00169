// The watch starts before MPI and ends after it: its flags, MPI's own start and end, how the
// processes were launched, and the table of functions that programs call (common/watch.hpp).
#include "common/watch.hpp"
#include "tools/watch/call_hooks.hpp"
#include "tools/watch/host_boards.hpp"
#include "tools/watch/patience.hpp"
#include "tools/watch/trace_writer.hpp"
#include "tools/watch/watch_thread.hpp"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>

namespace dist::watch {
namespace {

struct Launcher {
  const char* name;
  const char* size;                  // the variable with the number of processes
  const char* rank;                  // and the one with this process's place among them
  const char* connection = nullptr;  // without this one, MPI cannot connect the processes
  bool slurm = false;                // whether Slurm, too, may set these variables
};

// The first launcher that gives a number decides, because mpirun may run inside a step of
// Slurm, for example. A batch script of Slurm is task 0 of no step. ./learn says how many
// processes it asked mpirun for.
constexpr Launcher kLaunchers[] = {
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"MPICH's mpirun", "PMI_SIZE", "PMI_RANK", nullptr, true},
    {"Slurm's srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "PMIX_RANK", true},
    {"a launcher with PMIx", "PMIX_SIZE", "PMIX_RANK", nullptr, true},
    {"the mpirun on the PATH", "LEARN_RANKS", "LEARN_RANK"}};

// Whether somebody has typed the program's name in a shell that `srun --pty` has started.
// Slurm's variables then tell of the shell's tasks, not of this program.
bool is_in_shell_of_srun() {
  if (std::getenv("SLURM_PTY_PORT") == nullptr) return false;
  std::ifstream file("/proc/" + std::to_string(::getppid()) + "/comm");
  std::string parent;
  return std::getline(file, parent) && parent != "slurmstepd" && !parent.starts_with("hydra");
}

// The processes that a launcher has started together.
//
// mpirun of a different MPI, or srun without PMIx, starts N processes that cannot find each
// other. Each is then rank 0 of 1: all would verify what they alone computed and write the same
// files.
struct Launch {
  const char* launcher = nullptr;
  int processes = 0;     // 0: the launcher does not say how many
  bool connects = true;  // whether it tells MPI_Init of the other processes
  bool speaks = true;    // whether this process reports a problem, so that only one does

  // Before MPI_Init, which sets some of the environment variables that this reads.
  Launch() {
    const bool in_shell = is_in_shell_of_srun();
    for (const Launcher& by : kLaunchers) {
      if (in_shell && by.slurm) continue;
      const int size = number_in(by.size);
      const int rank = number_in(by.rank);
      if (size == 0 && rank == 0) continue;
      launcher = by.name;
      processes = std::max(size, rank + 1);
      connects = by.connection == nullptr || std::getenv(by.connection) != nullptr;
      speaks = rank == 0 || size == 0;
      return;
    }
  }

  // Called if this process is alone, although it was not started alone.
  [[noreturn]] void refuse() const {
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    PMPI_Get_library_version(library, &length);
    const std::string mpi = library;
    if (speaks) {
      std::fprintf(
          stderr,
          "error: %s started %d processes, but each of them is alone in its MPI world, "
          "because the program belongs to %s: start it with that MPI's mpirun or, "
          "under Slurm, with srun --mpi=pmix\n",
          launcher, processes, mpi.substr(0, mpi.find_first_of(",\n")).c_str());
    }
    std::exit(2);
  }
};

struct Flags {
  std::string trace;  // file; empty: none
  bool strict = false;
  double timeout_s = kDefaultTimeout_s;  // 0: never
};

// Reads "--flag value" and "--flag=value"; the last value wins. Malformed values are ignored,
// because the program's own command-line parser reports them later.
Flags read_flags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string_view flag = argument.substr(0, argument.find('='));
    std::string_view value = i + 1 < argc ? argv[i + 1] : "";
    if (flag.size() < argument.size()) value = argument.substr(flag.size() + 1);
    if (flag == "--strict") flags.strict = true;
    if (flag == "--trace") flags.trace = value;
    if (flag == "--timeout") {
      char* end = nullptr;
      const double seconds = std::strtod(value.data(), &end);
      const bool number = !value.empty() && *end == '\0';
      if (number && seconds >= 0 && seconds <= kLongestTimeout_s) flags.timeout_s = seconds;
    }
  }
  return flags;
}

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

// Called before MPI starts. Sends no message.
void begin_session(int argc, char** argv) {
  const Flags flags = read_flags(argc, argv);
  if (flags.strict) mode |= kStrict;
  if (flags.timeout_s == 0 && flags.trace.empty()) return;
  session = new Session{flags.timeout_s, HostBoards(flags.trace)};
  std::atexit([] { session->boards.remove_name(); });
  the_board = session->boards.mine;
  mode |= session->traces() ? kBoard | kTrace : kBoard;
  my_thread()->name = intern("main");  // also makes this thread the first one of the trace
  if (flags.timeout_s > 0) session->watch = start_watch(session->boards, flags.timeout_s);
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
  const bool given = argc != nullptr && argv != nullptr;  // MPI does not require them
  begin_session(given ? *argc : 0, given ? *argv : nullptr);
  count_processors();
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
