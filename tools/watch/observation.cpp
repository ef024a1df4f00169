#include "tools/watch/observation.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <unordered_map>

namespace dist::watch {

std::atomic<unsigned> mode{0};

namespace {

std::atomic<RankBoard*> the_board{nullptr};

// A thread's place on the board. The place is freed when the thread ends.
struct ThreadPlace {
  RankBoard* board = nullptr;
  ThreadRecord* record = nullptr;
  std::size_t index = 0;

  void take(RankBoard& from) {
    board = &from;
    record = nullptr;
    for (index = 0; index < RankBoard::kThreads; ++index) {
      ThreadRecord& candidate = from.threads[index];
      if (candidate.taken != 0 || !candidate.taken.claim(0, 1)) continue;
      candidate.name = 0;
      candidate.scope = 0;
      candidate.call = Call::none;
      candidate.polling = false;
      record = &candidate;
      return;
    }
    index = 0;
  }
  ~ThreadPlace() {
    // The board may no longer exist.
    if (record != nullptr && board == my_board()) record->taken = 0;
  }
};

ThreadPlace& my_place() {
  thread_local ThreadPlace place;
  RankBoard* const board = my_board();
  if (board != nullptr && place.board != board) place.take(*board);
  return place;
}

TraceEvent* next_event(RankBoard& board, std::uint64_t& index) {
  index = board.events_written.fetch_add(1);
  TraceEvent* const event = board.events() + index % board.event_capacity;
  event->written = 0;
  return event;
}

void put(OperationFields& fields, const Operation& operation) {
  fields.kind = operation.kind;
  fields.call = operation.call;
  fields.peer = operation.peer;
  fields.tag = operation.tag;
  fields.comm = operation.comm;
  fields.number = operation.number;
  fields.bytes = operation.bytes;
}

void put(ThreadRecord& record, Call call, std::span<const Operation> operations) {
  record.call = call;
  record.operation_count = static_cast<std::uint32_t>(operations.size());
  const std::size_t shown = std::min(operations.size(), ThreadRecord::kOperations);
  for (std::size_t i = 0; i < shown; ++i) put(record.operations[i], operations[i]);
}

struct Names {
  std::mutex mutex;
  std::unordered_map<std::string, std::uint16_t> numbers;
};

Names& names() {
  static auto* const the_names = new Names;
  return *the_names;
}

}  // namespace

RankBoard* my_board() {
  return the_board.load(std::memory_order_relaxed);
}

void set_my_board(RankBoard* board) {
  the_board = board;
  const std::lock_guard lock(names().mutex);
  names().numbers.clear();
}

ThreadRecord* my_thread() {
  return my_board() == nullptr ? nullptr : my_place().record;
}

std::uint64_t now_ns() {
  // steady_clock is CLOCK_MONOTONIC, which counts from the host's start.
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

std::uint16_t intern(std::string_view name) {
  RankBoard* const board = my_board();
  if (board == nullptr || name.empty()) return 0;
  const std::lock_guard lock(names().mutex);
  const auto [entry, is_new] = names().numbers.try_emplace(std::string(name), 0);
  const std::uint32_t next = board->label_count + 1;
  if (is_new && next < RankBoard::kLabels) {
    board->labels[next].set(name);
    board->label_count = next;
    entry->second = static_cast<std::uint16_t>(next);
  }
  return entry->second;
}

Observation::Observation(Call call, std::span<const Operation> operations,
                         std::uint32_t wait_label)
    : call_(call), wait_label_(wait_label) {
  RankBoard* const board = my_board();
  if (board == nullptr) return;
  if (!operations.empty()) first_ = operations.front();
  for (const Operation& operation : operations) {
    if (operation.kind != OperationKind::send) from_ = operation.peer;
  }
  ThreadRecord* const record = my_place().record;
  const bool asked = record != nullptr && record->polling && record->call == call;
  if (record != nullptr) {
    put(*record, call, operations);
    record->wait_label = wait_label;
    record->polling = false;
    record->inside = true;
    record->moves.increment();
  } else {
    board->other_moves.fetch_add(1);
  }
  if (!is_on(kTrace)) return;
  begin_ns_ = asked ? std::uint64_t{record->entered_ns} : now_ns();
  if (record != nullptr) record->entered_ns = begin_ns_;
  for (const Operation& operation : operations) {
    // The message leaves during the call that started the send, not during a wait for that
    // send.
    if (operation.kind == OperationKind::send && operation.call == call) {
      trace_arrow(TraceEvent::Type::departure, begin_ns_, operation);
    }
  }
}

Observation::~Observation() {
  RankBoard* const board = my_board();
  if (board == nullptr) return;
  const ThreadPlace& place = my_place();
  if (place.record != nullptr) {
    place.record->inside = false;
    place.record->left_at = std::uint64_t{board->heartbeat};
    place.record->moves.increment();
  } else {
    board->other_moves.fetch_add(1);
  }
  if (begin_ns_ == 0) return;
  std::uint64_t index = 0;
  TraceEvent& event = *next_event(*board, index);
  event.begin_ns = static_cast<std::int64_t>(begin_ns_);
  event.end_ns = static_cast<std::int64_t>(now_ns());
  event.bytes = first_.bytes;
  event.number = first_.kind == OperationKind::collective ? first_.number : 0;
  event.comm = first_.comm;
  event.peer =
      first_.call == Call::none || first_.kind != OperationKind::send ? kNobody : first_.peer;
  event.from = from_;
  event.tag = first_.tag;
  event.call = call_;
  event.label = static_cast<std::uint16_t>(wait_label_);
  event.subject = 0;
  if (place.record != nullptr && wait_label_ == 0) {
    event.label = static_cast<std::uint16_t>(place.record->scope);
    event.subject = static_cast<std::uint16_t>(place.record->subject);
  }
  event.thread = static_cast<std::uint8_t>(place.index);
  event.type = TraceEvent::Type::slice;
  event.written.publish(index + 1);
}

void note_polling(Call call, std::span<const Operation> operations) {
  ThreadRecord* const record = my_thread();
  if (record == nullptr) return;
  if (is_on(kTrace) && !(record->polling && record->call == call)) {
    record->entered_ns = now_ns();
  }
  put(*record, call, operations);
  record->wait_label = 0;
  record->polling = true;
}

void trace_arrow(PlainEvent::Type type, std::uint64_t at_ns, const Operation& operation) {
  if (operation.number == 0) return;
  RankBoard* const board = my_board();
  std::uint64_t index = 0;
  TraceEvent& event = *next_event(*board, index);
  event.begin_ns = event.end_ns = static_cast<std::int64_t>(at_ns);
  event.number = operation.number;
  event.comm = operation.comm;
  event.peer = operation.peer;
  event.tag = operation.tag;
  event.thread = static_cast<std::uint8_t>(my_place().index);
  event.type = type;
  event.written.publish(index + 1);
}

void trace_slice(Call call, std::uint64_t begin_ns, std::uint16_t label, std::uint16_t subject,
                 std::uint32_t number) {
  RankBoard* const board = my_board();
  if (board == nullptr || !is_on(kTrace)) return;
  std::uint64_t index = 0;
  TraceEvent& event = *next_event(*board, index);
  event.begin_ns = static_cast<std::int64_t>(begin_ns);
  event.end_ns = static_cast<std::int64_t>(now_ns());
  event.bytes = 0;
  event.number = number;
  event.comm = 0;
  event.peer = event.from = kNobody;
  event.tag = 0;
  event.call = call;
  event.label = label;
  event.subject = subject;
  event.thread = static_cast<std::uint8_t>(my_place().index);
  event.type = TraceEvent::Type::slice;
  event.written.publish(index + 1);
}

}  // namespace dist::watch
