#include "tools/watch/trace.hpp"

#include "common/atomic_file.hpp"
#include "tools/watch/observation.hpp"
#include "tools/watch/text.hpp"
#include "tools/watch/trace_text.hpp"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <new>

namespace dist::watch {
namespace {

// The call that `thread` is in, as an event that ends now.
PlainEvent unfinished(const ThreadRecord& thread, std::size_t place, std::int64_t offset) {
  PlainEvent event{};
  event.begin_ns = static_cast<std::int64_t>(std::uint64_t{thread.entered_ns}) + offset;
  event.end_ns = static_cast<std::int64_t>(now_ns()) + offset;
  event.peer = event.from = kNobody;
  event.call = thread.call;
  const bool waits = event.call == Call::wait_scope;
  event.label = static_cast<std::uint16_t>(waits ? thread.wait_label : thread.scope);
  event.subject = static_cast<std::uint16_t>(waits ? 0U : std::uint32_t{thread.subject});
  event.thread = static_cast<std::uint8_t>(place);
  event.type = TraceEvent::Type::slice;
  for (std::size_t i = 0; i < std::min<std::size_t>(thread.operation_count, 2); ++i) {
    const OperationFields& fields = thread.operations[i];
    if (i == 0) event.bytes = fields.bytes;
    if (i == 0) event.tag = fields.tag;
    if (fields.kind == OperationKind::send) event.peer = fields.peer;
    if (fields.kind == OperationKind::receive) event.from = fields.peer;
    if (fields.kind == OperationKind::collective) event.number = fields.number;
  }
  return event;
}

RankTrace read_board(const RankBoard& board) {
  RankTrace trace;
  trace.rank = board.rank;
  trace.host = board.host_name.data();
  const std::uint64_t written = board.events_written;
  const std::uint64_t capacity = board.event_capacity;
  const std::uint64_t first = written > capacity ? written - capacity : 0;
  trace.dropped = first;
  const std::int64_t offset = trace.clock_offset_ns = board.clock_offset_ns;
  for (std::uint64_t i = first; i < written; ++i) {
    const TraceEvent& event = board.events()[i % capacity];
    if (event.written.acquired() != i + 1) continue;  // being written right now
    trace.events.push_back(event);
    trace.events.back().begin_ns += offset;
    trace.events.back().end_ns += offset;
  }
  for (std::size_t t = 0; t < RankBoard::kThreads; ++t) {
    const ThreadRecord& thread = board.threads[t];
    if (thread.moves == 0) continue;
    const std::string name = board.labels[thread.name % RankBoard::kLabels].get();
    trace.threads.emplace_back(static_cast<int>(t), name);
    // A call that has not ended is not recorded yet, and may be the cause of a hang.
    if (thread.inside || thread.polling) trace.events.push_back(unfinished(thread, t, offset));
  }
  for (std::uint32_t i = 0; i <= board.label_count; ++i) {
    trace.labels.push_back(board.labels[i].get());
  }
  return trace;
}

// A board can be sent as it is in memory, because no thread writes to it any more.
int bytes_of(const RankBoard& board) {
  const std::uint64_t events =
      std::min<std::uint64_t>(board.events_written, board.event_capacity);
  return static_cast<int>(sizeof(RankBoard) + events * sizeof(TraceEvent));
}

RankTrace receive_board(int source) {
  int bytes = 0;
  PMPI_Recv(&bytes, 1, MPI_INT, source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  const auto free = [](void* memory) { ::operator delete(memory); };
  const std::unique_ptr<void, decltype(free)> memory(
      ::operator new(static_cast<std::size_t>(bytes)), free);
  PMPI_Recv(memory.get(), bytes, MPI_BYTE, source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return read_board(*static_cast<const RankBoard*>(memory.get()));
}

}  // namespace

void write_trace_of_all_ranks(const std::string& file, const RankBoard& mine) {
  int rank = 0;
  int size = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank != 0) {
    const int bytes = bytes_of(mine);
    PMPI_Send(&bytes, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    PMPI_Send(&mine, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    return;
  }
  std::vector<RankTrace> traces{read_board(mine)};
  for (int source = 1; source < size; ++source) traces.push_back(receive_board(source));
  write_file_at_once(file, text_of_trace(traces));
  for (const RankTrace& one : traces) {
    if (one.dropped == 0) continue;
    std::fprintf(stderr, "trace: no room for the first %llu events of rank %d\n",
                 static_cast<unsigned long long>(one.dropped), one.rank);
  }
}

std::string write_trace_of_host(const std::string& file,
                                const std::vector<RankBoard*>& boards) {
  std::vector<RankTrace> traces;
  for (const RankBoard* board : boards) {
    if (board->pid != 0) traces.push_back(read_board(*board));
  }
  const int lowest = traces.front().rank;
  const std::string name = lowest == 0 ? file : concat(file, ".rank", lowest);
  write_file_at_once(name, text_of_trace(traces));
  return name;
}

}  // namespace dist::watch
