// The file has one process per rank and two rows per thread: its communication (a slice per MPI
// call, and an arrow from each send to its receive) and its phases (CallScope). The format is
// described in "Trace Event Format", Google, 2016.
#include "tools/watch/trace_writer.hpp"

#include "common/atomic_file.hpp"
#include "tools/watch/call_hooks.hpp"
#include "tools/watch/text.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <tuple>

namespace dist::watch {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      result += escape;
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

// A JSON object, written member by member.
class Object {
 public:
  Object& add(std::string_view key, std::string_view text) { return put(key, quoted(text)); }
  Object& add(std::string_view key, std::integral auto number) {
    return put(key, std::to_string(number));
  }
  Object& add(std::string_view key, const Object& object) { return put(key, object.text()); }
  // Writes nanoseconds as microseconds, the format's unit.
  Object& add_us(std::string_view key, std::int64_t ns) {
    return put(key, format_number("%.3f", static_cast<double>(ns) / 1e3));
  }
  std::string text() const { return "{" + members_ + "}"; }

 private:
  Object& put(std::string_view key, const std::string& value) {
    if (!members_.empty()) members_ += ',';
    members_ += concat(quoted(key), ":", value);
    return *this;
  }
  std::string members_;
};

class TraceWriter {
 public:
  explicit TraceWriter(const std::vector<const RankBoard*>& boards) {
    for (const RankBoard* const board : boards) {
      traces_.push_back({*board, events_of(*board)});
      for (const Event& event : traces_.back().events) {
        start_ns_ = std::min(start_ns_, event.begin_ns);
        if (event.type == Event::Type::slice) continue;
        Arrow& arrow = arrows_[key_of(*board, event)];
        if (arrow.id == 0) arrow.id = arrows_.size();
        (event.type == Event::Type::departure ? arrow.leaves : arrow.arrives) = true;
      }
    }
  }

  std::string write() {
    Object dropped, offsets;
    text_ = "{\"traceEvents\":[";
    for (const auto& [board, events] : traces_) {
      name_rows(board);
      for (const Event& event : events) {
        event.type == Event::Type::slice ? slice(board, event) : end_of_arrow(board, event);
      }
      const std::string rank = concat("rank ", std::int32_t{board.rank});
      if (dropped_events(board) > 0) dropped.add(rank, dropped_events(board));
      offsets.add(rank, std::int64_t{board.clock_offset_ns});
    }
    const Object other = Object().add("clockOffsetsNs", offsets).add("droppedEvents", dropped);
    text_ += concat("\n],\"displayTimeUnit\":\"ns\",\"otherData\":", other.text(), "}\n");
    return std::move(text_);
  }

  static std::uint64_t dropped_events(const RankBoard& board) {
    return board.events_written -
           std::min<std::uint64_t>(board.events_written, board.event_capacity);
  }

 private:
  struct Trace {
    const RankBoard& board;
    std::vector<Event> events;  // by rank 0's clock
  };
  // A message, identified in the same way at both of its ends: source, destination, tag,
  // communicator and number.
  using Message = std::tuple<int, int, int, std::uint32_t, std::uint32_t>;
  struct Arrow {
    std::size_t id = 0;
    bool leaves = false, arrives = false;
  };

  static std::vector<Event> events_of(const RankBoard& board) {
    std::vector<Event> events;
    const std::uint64_t written = board.events_written;
    for (std::uint64_t i = dropped_events(board); i < written; ++i) {
      const RecordedEvent& event = board.events()[i % board.event_capacity];
      // An event may be being written right now.
      if (event.written.acquired() == i + 1) events.push_back(event);
    }
    for (const ThreadRecord& thread : board.threads) {
      if (thread.moves == 0 || !(thread.inside || thread.polling)) continue;
      // A call that has not ended is not recorded yet, and may be the cause of a hang.
      events.push_back(thread.slice(thread.operations()));
      events.back().end_ns = now_ns();
      events.back().thread = static_cast<std::uint8_t>(&thread - board.threads.data());
    }
    for (Event& event : events) {
      event.begin_ns += board.clock_offset_ns;
      event.end_ns += board.clock_offset_ns;
    }
    return events;
  }

  static Message key_of(const RankBoard& board, const Event& event) {
    const bool leaves = event.type == Event::Type::departure;
    return {leaves ? std::int32_t{board.rank} : event.peer,
            leaves ? event.peer : std::int32_t{board.rank}, event.tag, event.comm,
            event.number};
  }

  void add(const Object& event) {
    text_ += concat(first_ ? "\n" : ",\n", event.text());
    first_ = false;
  }

  // A thread has its phases in row 2 * thread and its communication in the next one.
  static Object starting(const char* type, std::string_view name, const RankBoard& board,
                         std::size_t row) {
    Object event;
    event.add("ph", type).add("name", name);
    event.add("pid", std::int32_t{board.rank}).add("tid", row);
    return event;
  }

  void name_rows(const RankBoard& board) {
    const auto name = [&](const char* what, std::size_t row, const std::string& given) {
      add(starting("M", what, board, row).add("args", Object().add("name", given)));
    };
    const auto sort = [&](const char* what, std::size_t row, std::size_t index) {
      add(starting("M", what, board, row).add("args", Object().add("sort_index", index)));
    };
    const auto rank = static_cast<std::size_t>(board.rank);
    name("process_name", 0, concat("rank ", rank, " on ", board.host_name.data()));
    sort("process_sort_index", 0, rank);
    for (std::size_t i = 0; i < RankBoard::kThreads; ++i) {
      if (board.threads[i].moves == 0) continue;
      const std::uint32_t label = board.threads[i].name;
      const std::string given =
          label == 0 ? concat("thread ", i) : board.label(static_cast<std::uint16_t>(label));
      name("thread_name", 2 * i, given);
      name("thread_name", 2 * i + 1, given + ": communication");
      sort("thread_sort_index", 2 * i, 2 * i);
      sort("thread_sort_index", 2 * i + 1, 2 * i + 1);
    }
  }

  void slice(const RankBoard& board, const Event& event) {
    const std::string scope = board.label(event.label);
    const std::string subject = board.label(event.subject);
    const bool phase = event.call == Call::call_scope;
    std::string name = name_of(event.call);
    Object args;
    if (phase || event.call == Call::wait_scope) {
      name = scope;
    } else {
      if (event.bytes > 0) args.add("bytes", event.bytes);
      const bool collective = event.number > 0;  // messages are numbered on their arrows
      if (event.peer >= 0) args.add("to", event.peer);
      if (event.from >= 0) args.add(collective ? "root" : "from", event.from);
      if (!collective && (event.peer >= 0 || event.from >= 0)) args.add("tag", event.tag);
      if (!scope.empty()) args.add("in", scope);
    }
    if (event.number > 0) args.add("number", event.number);
    if (!subject.empty()) args.add("tensor", subject);
    add(starting("X", name, board, 2U * event.thread + (phase ? 0 : 1))
            .add("cat", phase ? "phase" : "communication")
            .add_us("ts", event.begin_ns - start_ns_)
            .add_us("dur", event.end_ns - event.begin_ns)
            .add("args", args));
  }

  void end_of_arrow(const RankBoard& board, const Event& event) {
    const Arrow& arrow = arrows_.at(key_of(board, event));
    // An arrow needs both ends, but the board may not have had room for one.
    if (!arrow.leaves || !arrow.arrives) return;
    const bool leaves = event.type == Event::Type::departure;
    Object end = starting(leaves ? "s" : "f", "message", board, 2U * event.thread + 1);
    end.add("cat", "message").add("id", arrow.id).add_us("ts", event.begin_ns - start_ns_);
    if (!leaves) end.add("bp", "e");  // binds to the slice around it, not to the next one
    add(end);
  }

  std::vector<Trace> traces_;
  std::map<Message, Arrow> arrows_;
  std::int64_t start_ns_ = std::numeric_limits<std::int64_t>::max();
  std::string text_;
  bool first_ = true;
};

}  // namespace

void write_trace_of_all_ranks(const std::string& file, const RankBoard& mine) {
  int rank = 0, size = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank != 0) {
    // A board can be sent as it is in memory, because no thread writes to it any more.
    const std::uint64_t events =
        std::min<std::uint64_t>(mine.events_written, mine.event_capacity);
    const auto bytes = static_cast<int>(sizeof mine + events * sizeof(RecordedEvent));
    PMPI_Send(&mine, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    return;
  }
  std::vector<const RankBoard*> boards{&mine};
  std::vector<std::vector<std::uint64_t>> received;  // as words, so that boards are aligned
  for (int source = 1; source < size; ++source) {
    MPI_Status status;
    int bytes = 0;
    PMPI_Probe(source, 0, MPI_COMM_WORLD, &status);
    PMPI_Get_count(&status, MPI_BYTE, &bytes);
    auto& board =
        received.emplace_back(static_cast<std::size_t>(bytes) / sizeof(std::uint64_t));
    PMPI_Recv(board.data(), bytes, MPI_BYTE, source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    boards.push_back(reinterpret_cast<const RankBoard*>(board.data()));
  }
  write_file_at_once(file, TraceWriter(boards).write());
  for (const RankBoard* board : boards) {
    const std::uint64_t dropped = TraceWriter::dropped_events(*board);
    if (dropped == 0) continue;
    std::fprintf(stderr, "trace: no room for the first %llu events of rank %d\n",
                 static_cast<unsigned long long>(dropped), std::int32_t{board->rank});
  }
}

std::string write_trace_of_host(const std::string& file,
                                const std::vector<RankBoard*>& boards) {
  std::vector<const RankBoard*> started;
  for (const RankBoard* board : boards) {
    if (board->pid != 0) started.push_back(board);
  }
  const std::int32_t lowest = started.front()->rank;
  const std::string name = lowest == 0 ? file : concat(file, ".rank", lowest);
  write_file_at_once(name, TraceWriter(started).write());
  return name;
}

// The first rank of each other host asks rank 0 for the time. The fastest answer is the most
// accurate: its error is at most half the round trip.
std::int64_t clock_offset_to_rank_0() {
  constexpr int kQuestions = 16;
  MPI_Comm host = MPI_COMM_NULL;
  int rank = 0, local_rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
  PMPI_Comm_rank(host, &local_rank);
  const int asks = local_rank == 0 && rank != 0 ? kQuestions : 0;
  int questions = 0;
  PMPI_Reduce(&asks, &questions, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  for (int i = 0; i < questions; ++i) {  // on rank 0
    MPI_Status question;
    PMPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &question);
    const std::int64_t now = now_ns();
    PMPI_Send(&now, 1, MPI_INT64_T, question.MPI_SOURCE, 0, MPI_COMM_WORLD);
  }
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  std::int64_t offset = 0;
  for (int i = 0; i < asks; ++i) {
    const std::int64_t begin = now_ns();
    std::int64_t theirs = 0;
    PMPI_Send(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    PMPI_Recv(&theirs, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const std::int64_t round_trip = now_ns() - begin;
    if (round_trip >= shortest) continue;
    shortest = round_trip;
    // Assume that rank 0 read its clock half a round trip after the question was sent.
    offset = theirs - (begin + round_trip / 2);
  }
  PMPI_Bcast(&offset, 1, MPI_INT64_T, 0, host);
  PMPI_Comm_free(&host);
  return offset;
}

}  // namespace dist::watch
