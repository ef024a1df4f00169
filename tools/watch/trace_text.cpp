#include "tools/watch/trace_text.hpp"

#include "tools/watch/text.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

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

// Identifies a message at both of its ends.
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
        if (event.type == PlainEvent::Type::departure) {
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
        if (event.type == PlainEvent::Type::slice) {
          slice(trace, event);
        } else {
          arrow(trace, event);
        }
      }
    }
    Object dropped;
    Object offsets;
    for (const RankTrace& trace : traces_) {
      const std::string rank = concat("rank ", trace.rank);
      if (trace.dropped > 0) dropped.add(rank, trace.dropped);
      offsets.add(rank, trace.clock_offset_ns);
    }
    Object other;
    other.add("clockOffsetsNs", offsets).add("droppedEvents", dropped);
    text_ += concat("\n],\"displayTimeUnit\":\"ns\",\"otherData\":", other.text(), "}\n");
    return std::move(text_);
  }

 private:
  static int communication_row(const PlainEvent& event) { return 2 * event.thread + 1; }
  static int phase_row(const PlainEvent& event) { return 2 * event.thread; }

  // An arrow needs both ends, but the ring buffer may have dropped one.
  void mark_arrived() {
    for (const RankTrace& trace : traces_) {
      for (const PlainEvent& event : trace.events) {
        if (event.type != PlainEvent::Type::arrival) continue;
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

  static Object starting(const char* type, const std::string& name, int rank, int row) {
    Object event;
    event.add("ph", type).add("name", name).add("pid", rank).add("tid", row);
    return event;
  }

  void name_row(const char* what, int rank, int row, const Object& args) {
    add(starting("M", what, rank, row).add("args", args).text());
  }

  void name_rows(const RankTrace& trace) {
    const int rank = trace.rank;
    const auto named = [](const std::string& name) { return Object().add("name", name); };
    const auto sorted = [](int index) { return Object().add("sort_index", index); };
    name_row("process_name", rank, 0, named(concat("rank ", rank, " on ", trace.host)));
    name_row("process_sort_index", rank, 0, sorted(rank));
    for (const auto& [thread, given] : trace.threads) {
      const std::string name = given.empty() ? concat("thread ", thread) : given;
      name_row("thread_name", rank, 2 * thread, named(name));
      name_row("thread_name", rank, 2 * thread + 1, named(name + ": communication"));
      name_row("thread_sort_index", rank, 2 * thread, sorted(2 * thread));
      name_row("thread_sort_index", rank, 2 * thread + 1, sorted(2 * thread + 1));
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
    add(starting("X", name, trace.rank, phase ? phase_row(event) : communication_row(event))
            .add("cat", phase ? "phase" : "communication")
            .add_us("ts", event.begin_ns - start_ns_)
            .add_us("dur", event.end_ns - event.begin_ns)
            .add("args", args)
            .text());
  }

  void arrow(const RankTrace& trace, const PlainEvent& event) {
    const bool leaves = event.type == PlainEvent::Type::departure;
    const MessageKey key =
        leaves ? MessageKey{trace.rank, event.peer, event.tag, event.comm, event.number}
               : MessageKey{event.peer, trace.rank, event.tag, event.comm, event.number};
    const auto found = arrived_.find(key);
    if (found == arrived_.end()) return;
    Object end = starting(leaves ? "s" : "f", "message", trace.rank, communication_row(event));
    end.add("cat", "message").add("id", found->second);
    end.add_us("ts", event.begin_ns - start_ns_);
    if (!leaves) end.add("bp", "e");  // binds to the slice around it, not to the next one
    add(end.text());
  }

  const std::vector<RankTrace>& traces_;
  std::int64_t start_ns_ = std::numeric_limits<std::int64_t>::max();
  std::unordered_map<MessageKey, std::size_t, HashMessage> departures_;
  std::unordered_map<MessageKey, std::size_t, HashMessage> arrived_;
  std::string text_;
  bool first_ = true;
};

}  // namespace

std::string text_of_trace(const std::vector<RankTrace>& traces) {
  return TraceWriter(traces).write();
}

}  // namespace dist::watch
