#include "tools/watch/call_hooks.hpp"

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

  void take(RankBoard& from) {
    board = &from;
    record = nullptr;
    for (ThreadRecord& candidate : from.threads) {
      if (candidate.taken != 0 || !candidate.taken.claim(0, 1)) continue;
      candidate.name = 0;
      candidate.scope = 0;
      candidate.call = Call::none;
      candidate.polling = false;
      record = &candidate;
      return;
    }
  }
  ~ThreadPlace() {
    // The board may no longer exist.
    if (record != nullptr && board == my_board()) record->taken = 0;
  }
};

struct Names {
  std::mutex mutex;
  std::unordered_map<std::string, std::uint16_t> labels;
};

Names& names() {
  static auto* const the_names = new Names;  // threads may outlive static objects
  return *the_names;
}

// The call of a thread without a record is not shown.
void count_move(ThreadRecord* record) {
  if (record != nullptr) {
    record->moves.increment();
  } else {
    my_board()->other_moves.fetch_add(1);
  }
}

}  // namespace

RankBoard* my_board() {
  return the_board.load(std::memory_order_relaxed);
}

void set_my_board(RankBoard* board) {
  the_board = board;
  const std::lock_guard lock(names().mutex);
  names().labels.clear();
}

ThreadRecord* my_thread() {
  thread_local ThreadPlace place;
  RankBoard* const board = my_board();
  if (board == nullptr) return nullptr;
  if (place.board != board) place.take(*board);
  return place.record;
}

std::uint16_t intern(std::string_view name) {
  RankBoard* const board = my_board();
  if (board == nullptr || name.empty()) return 0;
  const std::lock_guard lock(names().mutex);
  const auto [entry, is_new] = names().labels.try_emplace(std::string(name), 0);
  const std::uint32_t next = board->label_count + 1;
  if (is_new && next < RankBoard::kLabels) {
    board->labels[next].set(name);
    board->label_count = next;
    entry->second = static_cast<std::uint16_t>(next);
  }
  return entry->second;
}

std::int64_t now_ns() {
  // steady_clock is CLOCK_MONOTONIC, which counts from the host's start.
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Observation::Observation(Call call, std::span<const Operation> operations,
                         std::uint16_t wait_label) {
  if (my_board() == nullptr) return;
  ThreadRecord* const record = my_thread();
  if (record != nullptr) {
    const bool polled = record->polling && record->call == call;
    record->set(call, operations, wait_label);
    record->polling = false;
    record->inside = true;
    if (is_on(kTrace)) {
      if (!polled) record->entered_ns = now_ns();
      slice_ = record->slice(operations);
    }
  }
  count_move(record);
  for (const Operation& operation : operations) {
    // The message leaves during the call that started the send, not during a wait for that
    // send.
    if (operation.kind == OperationKind::send && operation.call == call) {
      trace_end_of_arrow(Event::Type::departure, slice_.begin_ns, operation);
    }
  }
}

Observation::~Observation() {
  RankBoard* const board = my_board();
  if (board == nullptr) return;
  ThreadRecord* const record = my_thread();
  if (record != nullptr) {
    record->inside = false;
    record->left_at = std::uint64_t{board->heartbeat};
  }
  count_move(record);
  if (slice_.begin_ns == 0 || record == nullptr) return;
  slice_.end_ns = now_ns();
  board->record(slice_, *record);
}

void note_polling(Call call, std::span<const Operation> operations) {
  ThreadRecord* const record = my_thread();
  if (record == nullptr) return;
  if (is_on(kTrace) && !(record->polling && record->call == call)) {
    record->entered_ns = now_ns();
  }
  record->set(call, operations, /*new_wait_label=*/0);
  record->polling = true;
}

}  // namespace dist::watch
