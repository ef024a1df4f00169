// The file has one process per rank and two rows per thread: its communication (a slice per MPI
// call, and an arrow from each send to its receive) and its phases (CallScope). The format is
// described in "Trace Event Format", Google, 2016.
#include "tools/watch/trace/trace_writer.hpp"

#include "common/atomic_file.hpp"
#include "tools/watch/observe/call_hooks.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace dist::watch {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
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
    return put(key, fmt::format("{:.3f}", static_cast<double>(ns) / 1e3));
  }
  std::string text() const { return "{" + members_ + "}"; }

 private:
  Object& put(std::string_view key, const std::string& value) {
    if (!members_.empty()) members_ += ',';
    members_ += fmt::format("{}:{}", quoted(key), value);
    return *this;
  }
  std::string members_;
};

std::uint64_t dropped_events(const RankBoard& board) {
  return board.events_written -
         std::min<std::uint64_t>(board.events_written, board.event_capacity);
}

// Returns the board's events by rank 0's clock.
std::vector<Event> events_of(const RankBoard& board) {
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
    events.push_back(thread.slice());
    events.back().end_ns = now_ns();
    events.back().thread = static_cast<std::uint8_t>(&thread - board.threads.data());
  }
  for (Event& event : events) {
    event.begin_ns += board.clock_offset_ns;
    event.end_ns += board.clock_offset_ns;
  }
  return events;
}

class TraceWriter {
 public:
  std::string write(const std::vector<const RankBoard*>& boards) {
    std::vector<std::vector<Event>> events;
    for (const RankBoard* const board : boards) {
      for (const Event& event : events.emplace_back(events_of(*board))) {
        start_ns_ = std::min(start_ns_, event.begin_ns);
      }
    }
    Object dropped, offsets;
    for (std::size_t i = 0; i < boards.size(); ++i) {
      const RankBoard& board = *boards[i];
      name_rows(board);
      for (const Event& event : events[i]) {
        event.type == Event::Type::slice ? slice(board, event) : end_of_arrow(board, event);
      }
      const std::string rank = fmt::format("rank {}", +board.rank);
      if (dropped_events(board) > 0) dropped.add(rank, dropped_events(board));
      offsets.add(rank, std::int64_t{board.clock_offset_ns});
    }
    const Object other = Object().add("clockOffsetsNs", offsets).add("droppedEvents", dropped);
    return "{\"traceEvents\":[\n" + text_ +
           "\n],\"displayTimeUnit\":\"ns\",\"otherData\":" + other.text() + "}\n";
  }

 private:
  // A message, identified in the same way at both of its ends: source, destination, tag,
  // communicator and number.
  using Message = std::tuple<int, int, int, std::uint32_t, std::uint32_t>;

  void add(const Object& event) { text_ += (text_.empty() ? "" : ",\n") + event.text(); }

  // A thread has its phases in row 2 * thread and its communication in the next one.
  static Object starting(const char* type, std::string_view name, const RankBoard& board,
                         std::size_t row) {
    return Object().add("ph", type).add("name", name).add("pid", +board.rank).add("tid", row);
  }

  void name_rows(const RankBoard& board) {
    // Names a process or a thread; its number is also its place among the others.
    const auto row = [&](const std::string& what, std::size_t number, const std::string& name) {
      add(starting("M", what + "_name", board, number).add("args", Object().add("name", name)));
      add(starting("M", what + "_sort_index", board, number)
              .add("args", Object().add("sort_index", number)));
    };
    const auto rank = static_cast<std::size_t>(board.rank);
    row("process", rank, fmt::format("rank {} on {}", rank, board.host_name.data()));
    for (std::size_t i = 0; i < RankBoard::kThreads; ++i) {
      const ThreadRecord& thread = board.threads[i];
      if (thread.moves == 0) continue;
      const std::string name =
          thread.name == 0 ? fmt::format("thread {}", i) : board.label(thread.name);
      row("thread", 2 * i, name);
      row("thread", 2 * i + 1, name + ": communication");
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

  // Writes an arrow once both of its ends are found, because the board may not have had room
  // for one of them.
  void end_of_arrow(const RankBoard& board, const Event& event) {
    const bool leaves = event.type == Event::Type::departure;
    const int from = leaves ? +board.rank : event.peer;
    const int to = leaves ? event.peer : +board.rank;
    const Message message{from, to, event.tag, event.comm, event.number};
    Object end = starting(leaves ? "s" : "f", "message", board, 2U * event.thread + 1);
    end.add("cat", "message").add_us("ts", event.begin_ns - start_ns_);
    if (!leaves) end.add("bp", "e");  // binds to the slice around it, not to the next one
    const auto [other, is_first] = other_ends_.try_emplace(message, end);
    if (is_first) return;
    for (Object* const each : {&end, &other->second}) add(each->add("id", arrows_));
    ++arrows_;
  }

  std::map<Message, Object> other_ends_;
  std::size_t arrows_ = 0;
  std::int64_t start_ns_ = INT64_MAX;
  std::string text_;
};

}  // namespace

void write_trace_of_all_ranks(HostBoards& host) {
  const std::string file = std::exchange(host.trace, "");
  const RankBoard& mine = *host.mine;
  // A board can be sent as it is in memory, because no thread writes to it any more. It is sent
  // as words, so that it is aligned on arrival.
  const std::uint64_t events = mine.events_written - dropped_events(mine);
  const auto length =
      static_cast<int>((sizeof mine + events * sizeof(RecordedEvent)) / sizeof(std::uint64_t));
  int rank = 0, size = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<int> lengths(static_cast<std::size_t>(size));
  std::vector<int> begins(lengths.size());
  PMPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), 0);
  std::vector<std::uint64_t> words(static_cast<std::size_t>(begins.back() + lengths.back()));
  PMPI_Gatherv(&mine, length, MPI_UINT64_T, words.data(), lengths.data(), begins.data(),
               MPI_UINT64_T, 0, MPI_COMM_WORLD);
  if (rank != 0) return;
  std::vector<const RankBoard*> boards;
  for (const int begin : begins) {
    boards.push_back(reinterpret_cast<const RankBoard*>(words.data() + begin));
  }
  write_file_at_once(file, TraceWriter().write(boards));
  for (const RankBoard* board : boards) {
    const std::uint64_t dropped = dropped_events(*board);
    if (dropped == 0) continue;
    std::fprintf(stderr, "trace: no room for the first %llu events of rank %d\n",
                 static_cast<unsigned long long>(dropped), +board->rank);
  }
}

std::string write_trace_of_host(const HostBoards& host) {
  if (host.trace.empty()) return "";
  std::vector<const RankBoard*> started;
  for (const RankBoard* board : host.all) {
    if (board->pid != 0) started.push_back(board);
  }
  const std::int32_t lowest = started.front()->rank;
  const std::string name =
      lowest == 0 ? host.trace : fmt::format("{}.rank{}", host.trace, lowest);
  write_file_at_once(name, TraceWriter().write(started));
  return name;
}

// The first rank of each other host asks rank 0 for the time. The fastest answer is the most
// accurate: its error is at most half the round trip.
void align_clocks(const HostBoards& host) {
  constexpr int kQuestions = 16;
  const int asks = host.mine == host.all.front() && host.mine->rank != 0 ? kQuestions : 0;
  int questions = 0;
  PMPI_Reduce(&asks, &questions, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  for (int i = 0; i < questions; ++i) {  // on rank 0
    MPI_Status question;
    PMPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &question);
    const std::int64_t now = now_ns();
    PMPI_Send(&now, 1, MPI_INT64_T, question.MPI_SOURCE, 0, MPI_COMM_WORLD);
  }
  std::int64_t fastest = INT64_MAX;
  for (int i = 0; i < asks; ++i) {
    const std::int64_t begin = now_ns();
    std::int64_t theirs = 0;
    PMPI_Send(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    PMPI_Recv(&theirs, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const std::int64_t round_trip = now_ns() - begin;
    if (round_trip >= fastest) continue;
    fastest = round_trip;
    // Assume that rank 0 read its clock half a round trip after the question was sent.
    const std::int64_t offset = theirs - (begin + round_trip / 2);
    for (RankBoard* const board : host.all) board->clock_offset_ns = offset;
  }
  // Until rank 0 has answered every question, it would take other messages for questions.
  PMPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace dist::watch
