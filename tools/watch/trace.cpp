#include "tools/watch/trace.hpp"

#include "common/check.hpp"
#include "common/output_file.hpp"
#include "tools/watch/spy.hpp"

#include <mpi.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <limits>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dist::diagnostics {
namespace {

using Json = nlohmann::json;

// What one rank recorded. Its events bring their names along: numbers of labels mean nothing on
// another rank.
struct RankTrace {
  int rank = 0;
  std::string host;
  std::uint64_t dropped = 0;
  std::int64_t clock_offset_ns = 0;  // has been added to its times
  std::vector<std::string> labels;
  std::vector<std::pair<int, std::string>> threads;  // place and name
  std::vector<PlainEvent> events;
};

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// The call that `thread` is in, until now.
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
  trace.host = host_name();
  const std::uint64_t written = board.events_written;
  const std::uint64_t capacity = board.event_capacity;
  const std::uint64_t first = written > capacity ? written - capacity : 0;
  trace.dropped = first;
  const std::int64_t offset = trace.clock_offset_ns = board.clock_offset_ns;
  for (std::uint64_t i = first; i < written; ++i) {
    const TraceEvent& event = board.events()[i % capacity];
    if (event.written != i + 1) continue;  // being written right now
    std::atomic_thread_fence(std::memory_order_acquire);
    trace.events.push_back(event);
    trace.events.back().begin_ns += offset;
    trace.events.back().end_ns += offset;
  }
  for (std::size_t t = 0; t < RankBoard::kThreads; ++t) {
    const ThreadRecord& thread = board.threads[t];
    if (thread.moves == 0) continue;
    const std::string name = board.labels[thread.name % RankBoard::kLabels].get();
    trace.threads.emplace_back(static_cast<int>(t), name);
    // What a thread is still in has no end yet, and is what a hang is about.
    if (thread.inside) trace.events.push_back(unfinished(thread, t, offset));
  }
  for (std::uint32_t i = 0; i <= board.label_count; ++i) {
    trace.labels.push_back(board.labels[i].get());
  }
  return trace;
}

// To travel in one message of bytes.
std::string pack(const RankTrace& trace) {
  const Json head{{"rank", trace.rank},       {"host", trace.host},
                  {"dropped", trace.dropped}, {"clock_offset_ns", trace.clock_offset_ns},
                  {"labels", trace.labels},   {"threads", trace.threads}};
  const std::string text = head.dump();
  std::string bytes(sizeof(std::uint64_t), '\0');
  const std::uint64_t length = text.size();
  std::memcpy(bytes.data(), &length, sizeof(length));
  bytes += text;
  bytes.append(reinterpret_cast<const char*>(trace.events.data()),
               trace.events.size() * sizeof(PlainEvent));
  return bytes;
}

RankTrace unpack(const std::string& bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const std::size_t begin = sizeof(length) + length;
  const Json head = Json::parse(bytes.substr(sizeof(length), length));
  RankTrace trace;
  trace.rank = head["rank"];
  trace.host = head["host"];
  trace.dropped = head["dropped"];
  trace.clock_offset_ns = head["clock_offset_ns"];
  trace.labels = head["labels"].get<std::vector<std::string>>();
  trace.threads = head["threads"].get<std::vector<std::pair<int, std::string>>>();
  trace.events.resize((bytes.size() - begin) / sizeof(PlainEvent));
  std::memcpy(static_cast<void*>(trace.events.data()), bytes.data() + begin,
              trace.events.size() * sizeof(PlainEvent));
  return trace;
}

// A message's name on both of its ends.
struct MessageKey {
  std::int32_t source;
  std::int32_t dest;
  std::int32_t tag;
  std::uint32_t comm;
  std::uint32_t number;
  bool operator==(const MessageKey&) const = default;
};
struct HashMessage {
  std::size_t operator()(const MessageKey& key) const {
    std::size_t h = 14695981039346656037ULL;
    for (const std::uint32_t word :
         {static_cast<std::uint32_t>(key.source), static_cast<std::uint32_t>(key.dest),
          static_cast<std::uint32_t>(key.tag), key.comm, key.number}) {
      h = (h ^ word) * 1099511628211ULL;
    }
    return h;
  }
};

class TraceWriter {
 public:
  explicit TraceWriter(const std::vector<RankTrace>& traces) : traces_(traces) {
    for (const RankTrace& trace : traces_) {
      for (const PlainEvent& event : trace.events) {
        start_ns_ = std::min(start_ns_, event.begin_ns);
        if (event.type == TraceEvent::Type::departure) {
          departures_.insert({{trace.rank, event.peer, event.tag, event.comm, event.number},
                              departures_.size() + 1});
        }
      }
    }
    mark_arrived();
  }

  std::string write() {
    text_ = "{\"traceEvents\":[";
    for (const RankTrace& trace : traces_) {
      name_rows(trace);
      for (const PlainEvent& event : trace.events) {
        event.type == TraceEvent::Type::slice ? slice(trace, event) : arrow(trace, event);
      }
    }
    Json other{{"droppedEvents", Json::object()}, {"clockOffsetsNs", Json::object()}};
    for (const RankTrace& trace : traces_) {
      const std::string rank = "rank " + std::to_string(trace.rank);
      if (trace.dropped > 0) other["droppedEvents"][rank] = trace.dropped;
      other["clockOffsetsNs"][rank] = trace.clock_offset_ns;
    }
    text_ += fmt::format("\n],\"displayTimeUnit\":\"ns\",\"otherData\":{}}}\n", other.dump());
    return std::move(text_);
  }

 private:
  static int communication_row(const PlainEvent& event) { return 2 * event.thread + 1; }
  static int phase_row(const PlainEvent& event) { return 2 * event.thread; }

  // An arrow needs both ends; the ring may have dropped one.
  void mark_arrived() {
    for (const RankTrace& trace : traces_) {
      for (const PlainEvent& event : trace.events) {
        if (event.type != TraceEvent::Type::arrival) continue;
        const auto found =
            departures_.find({event.peer, trace.rank, event.tag, event.comm, event.number});
        if (found != departures_.end()) arrived_.insert(*found);
      }
    }
  }

  void add(const std::string& event) {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    text_ += event;
  }

  // Microseconds since the first event.
  double at(std::int64_t ns) const { return static_cast<double>(ns - start_ns_) / 1e3; }

  void name_rows(const RankTrace& trace) {
    const auto meta = [&](const char* what, int row, const Json& args) {
      add(Json{{"ph", "M"}, {"name", what}, {"pid", trace.rank}, {"tid", row}, {"args", args}}
              .dump());
    };
    meta("process_name", 0, {{"name", fmt::format("rank {} on {}", trace.rank, trace.host)}});
    meta("process_sort_index", 0, {{"sort_index", trace.rank}});
    for (const auto& [thread, given] : trace.threads) {
      const std::string name = given.empty() ? fmt::format("thread {}", thread) : given;
      meta("thread_name", 2 * thread, {{"name", name}});
      meta("thread_name", 2 * thread + 1, {{"name", name + ": communication"}});
      meta("thread_sort_index", 2 * thread, {{"sort_index", 2 * thread}});
      meta("thread_sort_index", 2 * thread + 1, {{"sort_index", 2 * thread + 1}});
    }
  }

  static std::string label(const RankTrace& trace, std::uint16_t number) {
    return number < trace.labels.size() ? trace.labels[number] : std::string();
  }

  void slice(const RankTrace& trace, const PlainEvent& event) {
    const std::string scope = label(trace, event.label);
    const std::string subject = label(trace, event.subject);
    const bool phase = event.call == Call::call_scope;
    std::string name = name_of(event.call);
    Json args = Json::object();
    if (phase || event.call == Call::wait_scope) {
      name = scope;
    } else {
      if (event.bytes > 0) args["bytes"] = event.bytes;
      const bool collective = event.number > 0;  // messages are numbered on their arrows
      if (event.peer >= 0) args["to"] = event.peer;
      if (event.from >= 0) args[collective ? "root" : "from"] = event.from;
      if (!collective && (event.peer >= 0 || event.from >= 0)) args["tag"] = event.tag;
      if (!scope.empty()) args["in"] = scope;
    }
    if (event.number > 0) args["number"] = event.number;
    if (!subject.empty()) args["tensor"] = subject;
    add(Json{{"ph", "X"},
             {"name", name},
             {"cat", phase ? "phase" : "communication"},
             {"pid", trace.rank},
             {"tid", phase ? phase_row(event) : communication_row(event)},
             {"ts", at(event.begin_ns)},
             {"dur", static_cast<double>(event.end_ns - event.begin_ns) / 1e3},
             {"args", args}}
            .dump());
  }

  void arrow(const RankTrace& trace, const PlainEvent& event) {
    const bool leaves = event.type == TraceEvent::Type::departure;
    const MessageKey key =
        leaves ? MessageKey{trace.rank, event.peer, event.tag, event.comm, event.number}
               : MessageKey{event.peer, trace.rank, event.tag, event.comm, event.number};
    const auto found = arrived_.find(key);
    if (found == arrived_.end()) return;
    Json json{{"ph", leaves ? "s" : "f"}, {"name", "message"},
              {"cat", "message"},         {"id", found->second},
              {"pid", trace.rank},        {"tid", communication_row(event)},
              {"ts", at(event.begin_ns)}};
    if (!leaves) json["bp"] = "e";  // binds to the slice around it, not to the next one
    add(json.dump());
  }

  const std::vector<RankTrace>& traces_;
  std::int64_t start_ns_ = std::numeric_limits<std::int64_t>::max();
  std::unordered_map<MessageKey, std::size_t, HashMessage> departures_;
  std::unordered_map<MessageKey, std::size_t, HashMessage> arrived_;
  std::string text_;
  bool first_ = true;
};

std::vector<std::string> gather_bytes(const std::string& mine) {
  int rank = 0;
  int size = 0;
  MPI_CHECK(PMPI_Comm_rank(MPI_COMM_WORLD, &rank));
  MPI_CHECK(PMPI_Comm_size(MPI_COMM_WORLD, &size));
  std::vector<std::string> all;
  if (rank != 0) {
    const std::uint64_t length = mine.size();
    MPI_CHECK(PMPI_Send(&length, 1, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD));
    MPI_CHECK(PMPI_Send(mine.data(), mpi_count(mine.size()), MPI_CHAR, 0, 0, MPI_COMM_WORLD));
    return all;
  }
  all.push_back(mine);
  for (int source = 1; source < size; ++source) {
    std::uint64_t length = 0;
    MPI_CHECK(
        PMPI_Recv(&length, 1, MPI_UINT64_T, source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    std::string bytes(length, '\0');
    MPI_CHECK(PMPI_Recv(bytes.data(), mpi_count(length), MPI_CHAR, source, 0, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
    all.push_back(std::move(bytes));
  }
  return all;
}

}  // namespace

void write_trace_of_all_ranks(const std::string& file, const RankBoard& mine) {
  std::vector<RankTrace> traces;
  for (const std::string& bytes : gather_bytes(pack(read_board(mine))))
    traces.push_back(unpack(bytes));
  if (traces.empty()) return;
  write_file_at_once(file, TraceWriter(traces).write());
  for (const RankTrace& one : traces) {
    if (one.dropped == 0) continue;
    fmt::print(stderr, "trace: no room for the first {} events of rank {}\n", one.dropped,
               one.rank);
  }
}

std::string write_trace_of_host(const std::string& file,
                                const std::vector<RankBoard*>& boards) {
  std::vector<RankTrace> traces;
  for (const RankBoard* board : boards) traces.push_back(read_board(*board));
  const int lowest = traces.front().rank;
  const std::string name = lowest == 0 ? file : fmt::format("{}.rank{}", file, lowest);
  write_file_at_once(name, TraceWriter(traces).write());
  return name;
}

}  // namespace dist::diagnostics
