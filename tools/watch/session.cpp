#include "tools/watch/session.hpp"

#include "common/watch.hpp"
#include "tools/watch/clock_offset.hpp"
#include "tools/watch/communicators.hpp"
#include "tools/watch/flags.hpp"
#include "tools/watch/host_boards.hpp"
#include "tools/watch/observation.hpp"
#include "tools/watch/trace.hpp"
#include "tools/watch/watch_thread.hpp"

#include <mpi.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

namespace dist::watch {
namespace {

struct Session {
  Session(Flags its_flags, const Place& place)
      : flags(std::move(its_flags)),
        other_hosts(place.local_size < place.size),
        boards(place, !flags.trace.empty()) {}

  Flags flags;
  bool other_hosts;
  HostBoards boards;
  std::unique_ptr<WatchThread> thread;
};

Session* session = nullptr;

// Cleans up after a program that exits without MPI_Finalize.
void remove_name_at_exit() {
  if (session != nullptr) session->boards.remove_name();
}

}  // namespace

void begin_session(int argc, char** argv) {
  Flags flags = read_flags(argc, argv);
  if (flags.strict) mode |= kStrict;
  const double timeout_s = flags.timeout_s;
  if (timeout_s == 0 && flags.trace.empty()) return;
  session = new Session(std::move(flags), place_of_this_process());
  std::atexit(remove_name_at_exit);
  set_my_board(&session->boards.mine());
  mode |= session->flags.trace.empty() ? kBoard : kBoard | kTrace;
  my_thread()->name = intern("main");  // also makes this thread the first one of the trace
  if (timeout_s > 0) {
    session->thread =
        std::make_unique<WatchThread>(session->boards, timeout_s, session->other_hosts);
  }
}

void session_started() {
  if (session == nullptr) return;
  note_communicators();
  RankBoard& mine = session->boards.mine();
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  mine.rank = rank;
  if (session->other_hosts && !session->flags.trace.empty()) {
    mine.clock_offset_ns = clock_offset_to_rank_0();
  }
  mine.working = true;
}

void finish_recording() {
  if (session == nullptr) return;
  int traced = session->flags.trace.empty() ? 0 : 1;
  {
    // From here on, this rank counts as being in MPI_Finalize if others still wait for it.
    const Observation finalizing(Call::MPI_Finalize, std::span<const Operation>());
    PMPI_Allreduce(MPI_IN_PLACE, &traced, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    mode = 0;
  }
  session->boards.mine().working = false;
  if (traced == 0) return;
  session->thread.reset();  // no rank moves while a large file is written
  try {
    write_trace_of_all_ranks(std::exchange(session->flags.trace, ""), session->boards.mine());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fatal: --trace: %s\n", error.what());
    PMPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
}

void finish_trace() {
  if (session != nullptr && !session->flags.trace.empty()) finish_recording();
}

void end_session() {
  if (session == nullptr) return;
  session->thread.reset();
  set_my_board(nullptr);
  delete session;
  session = nullptr;
}

void set_starting(bool on) {
  static std::atomic<int> scopes = 0;
  scopes += on ? 1 : -1;
  if (session == nullptr) return;
  RankBoard& mine = session->boards.mine();
  mine.working = scopes == 0;
  if (!on) mine.other_moves.fetch_add(1);
}

double timeout_s() {
  return session != nullptr ? session->flags.timeout_s : 0;
}

void flags_are_read(bool accepted) {
  if (session == nullptr) return;
  if (accepted) {
    // Start-up is the same in every program, so counts and the trace begin with the program's
    // own calls.
    session->boards.mine().reset();
  } else {
    mode &= ~unsigned{kTrace};
    session->flags.trace.clear();
  }
}

std::string keep_trace() {
  if (session == nullptr || session->flags.trace.empty()) return "";
  return write_trace_of_host(session->flags.trace, session->boards.all());
}

}  // namespace dist::watch
