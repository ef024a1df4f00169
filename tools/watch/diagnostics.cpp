#include "tools/watch/diagnostics.hpp"

#include "common/check.hpp"
#include "common/output_file.hpp"
#include "tools/watch/clock_offset.hpp"
#include "tools/watch/communicators.hpp"
#include "tools/watch/spy.hpp"
#include "tools/watch/trace.hpp"
#include "tools/watch/watch.hpp"

#include <mpi.h>

#include <algorithm>
#include <memory>
#include <new>
#include <unistd.h>
#include <vector>

namespace dist::diagnostics {
namespace {

// Everything between start() and finish().
struct Session {
  std::string trace;
  MPI_Comm host = MPI_COMM_NULL;  // the ranks that share this memory
  MPI_Win window = MPI_WIN_NULL;
  std::vector<RankBoard*> boards;  // of this host, by rank in `host`
  std::unique_ptr<Watch> watch;
};

Session* session = nullptr;

// For all ranks of a host together: small containers have 64 MiB of shared memory, and the
// lessons want some of it.
constexpr std::size_t kTraceBytesPerHost = 24U << 20;
constexpr std::size_t kMostEvents = 1U << 17;

void make_boards(Session& made) {
  int local_rank = 0;
  int local_size = 0;
  MPI_CHECK(
      PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made.host));
  MPI_CHECK(PMPI_Comm_rank(made.host, &local_rank));
  MPI_CHECK(PMPI_Comm_size(made.host, &local_size));
  const std::size_t events =
      made.trace.empty() ? 0
                         : std::min(kMostEvents, kTraceBytesPerHost / sizeof(TraceEvent) /
                                                     static_cast<std::size_t>(local_size));
  constexpr std::size_t kLine = 64;
  const std::size_t bytes =
      (sizeof(RankBoard) + events * sizeof(TraceEvent) + kLine - 1) / kLine * kLine;
  void* memory = nullptr;
  MPI_CHECK(PMPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), kLine, MPI_INFO_NULL,
                                     made.host, &memory, &made.window));
  auto* const mine = new (memory) RankBoard;
  int rank = 0;
  MPI_CHECK(PMPI_Comm_rank(MPI_COMM_WORLD, &rank));
  mine->rank = rank;
  mine->pid = static_cast<std::int32_t>(::getpid());
  mine->event_capacity = events;
  MPI_CHECK(PMPI_Barrier(made.host));  // nobody reads a board that is not there yet
  for (int r = 0; r < local_size; ++r) {
    MPI_Aint size = 0;
    int unit = 0;
    void* base = nullptr;
    MPI_CHECK(PMPI_Win_shared_query(made.window, r, &size, &unit, &base));
    made.boards.push_back(static_cast<RankBoard*>(base));
  }
  set_my_board(mine);
  note_communicators();
}

}  // namespace

void Options::declare(CommandLine& command_line, bool writes) {
  command_line.text("--trace", trace, "write what this run did as Chrome trace JSON");
  command_line.flag("--strict", strict, "synchronous sends: no message is buffered by MPI");
  command_line.number("--timeout", timeout_s, 0.0, 1e6,
                      "seconds without a move before a hang is reported; 0: never");
  command_line.check([this, writes] {
    if (writes && !trace.empty()) require_writable("--trace", trace);
  });
}

void start(const Options& options) {
  unsigned bits = options.strict ? unsigned{kStrict} : 0U;
  if (options.timeout_s > 0 || !options.trace.empty()) {
    session = new Session;
    session->trace = options.trace;
    make_boards(*session);
    bits |= kBoard;
    if (!options.trace.empty()) {
      my_board()->clock_offset_ns = clock_offset_to_rank_0(session->host);
      bits |= kTrace;
    }
    my_thread()->name = intern("main");  // and so this thread is the first of the trace
    // Nobody may be found waiting for a rank that has not started its watch.
    MPI_CHECK(PMPI_Barrier(session->host));
    if (options.timeout_s > 0) {
      int ranks = 0;
      MPI_CHECK(PMPI_Comm_size(MPI_COMM_WORLD, &ranks));
      const bool other_hosts = session->boards.size() < static_cast<std::size_t>(ranks);
      session->watch =
          std::make_unique<Watch>(session->boards, my_board(), options.timeout_s, other_hosts);
    }
  }
  mode.store(bits, std::memory_order_relaxed);
}

void finish() {
  if (session == nullptr) return;
  {
    // From here this rank stands in MPI_Finalize for those who still wait for it.
    const Observation finalizing(Call::MPI_Finalize, std::span<const Operation>());
    PMPI_Barrier(MPI_COMM_WORLD);
    mode.store(0, std::memory_order_relaxed);
  }
  session->watch.reset();
  if (!session->trace.empty()) {
    write_trace_of_all_ranks(session->trace, *my_board());
  }
  set_my_board(nullptr);
  PMPI_Win_free(&session->window);
  PMPI_Comm_free(&session->host);
  delete session;
  session = nullptr;
}

std::string keep_trace() {
  if (session == nullptr || session->trace.empty()) return "";
  return write_trace_of_host(session->trace, session->boards);
}

}  // namespace dist::diagnostics
