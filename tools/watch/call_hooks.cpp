#include "tools/watch/call_hooks.hpp"

#include "common/watch.hpp"
#include "tools/watch/communicators.hpp"

#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace dist::watch {
namespace {

// A thread's place on the board. The place is freed when the thread ends.
struct ThreadPlace {
  ThreadRecord* record = nullptr;

  explicit ThreadPlace(RankBoard& board) {
    for (ThreadRecord& candidate : board.threads) {
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
    if (record != nullptr) record->taken = 0;
  }
};

struct Names {
  std::mutex mutex;
  std::unordered_map<std::string, std::uint16_t> labels;
};
Names& known_names = *new Names;  // threads may outlive static objects

// The call of a thread without a record is not shown.
void count_move(ThreadRecord* record) {
  if (record != nullptr) {
    record->moves.increment();
  } else {
    my_board()->other_moves.fetch_add(1);
  }
}

// The state that a CallScope has replaced. Scopes begin and end through C functions, so they
// are kept on stacks instead of in the caller's objects.
struct Outer {
  bool in_counted_scope = false;
  bool noted = false;  // on the board
  std::uint16_t scope = 0;
  std::uint16_t subject = 0;
  std::uint32_t number = 0;
  std::int64_t begin_ns = 0;  // of the new scope; with a trace only
};

thread_local std::vector<Outer> call_scopes;
thread_local std::deque<std::optional<Observation>> wait_scopes;

}  // namespace

ThreadRecord* my_thread() {
  RankBoard* const board = my_board();
  if (board == nullptr) return nullptr;
  thread_local const ThreadPlace place(*board);
  return place.record;
}

std::uint16_t intern(std::string_view name) {
  RankBoard* const board = my_board();
  if (board == nullptr || name.empty()) return 0;
  const std::lock_guard lock(known_names.mutex);
  const auto [entry, is_new] = known_names.labels.try_emplace(std::string(name), 0);
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
      slice_ = record->slice();
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
    record->left_at = board->heartbeat;
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

void begin_call_scope(std::string_view operation, std::string_view subject) {
  Outer& outer = call_scopes.emplace_back();
  outer.in_counted_scope = in_counted_scope;
  if (!subject.empty()) in_counted_scope = subject.starts_with(counted_subject);
  ThreadRecord* const record = is_on(kBoard) ? my_thread() : nullptr;
  if (record == nullptr) return;
  outer = {outer.in_counted_scope, true,
           record->scope,          record->subject,
           record->scope_number,   is_on(kTrace) ? now_ns() : 0};
  record->scope = intern(operation);
  record->scope_number = my_board()->labels[record->scope].uses.fetch_add(1) + 1;
  record->subject = intern(subject);
}

void end_call_scope() {
  const Outer outer = call_scopes.back();
  call_scopes.pop_back();
  in_counted_scope = outer.in_counted_scope;
  if (!outer.noted) return;
  ThreadRecord& record = *my_thread();
  if (outer.begin_ns != 0 && is_on(kTrace)) {
    my_board()->record({.begin_ns = outer.begin_ns,
                        .end_ns = now_ns(),
                        .number = record.scope_number,
                        .call = Call::call_scope,
                        .label = record.scope,
                        .subject = record.subject},
                       record);
  }
  record.scope = outer.scope;
  record.subject = outer.subject;
  record.scope_number = outer.number;
}

void begin_wait_scope(std::string_view what, MPI_Comm comm, int peer) {
  std::optional<Observation>& observation = wait_scopes.emplace_back();
  if (!is_on(kBoard)) return;
  Operation wait{OperationKind::shared_memory, Call::wait_scope, kNobody};
  if (comm != MPI_COMM_NULL) {
    // A report looks up which ranks kEverybody stands for.
    wait.peer = peer == WaitScope::kAllOthers ? kEverybody : info_of(comm).world_rank(peer);
  }
  observation.emplace(Call::wait_scope, std::span(&wait, 1), intern(what));
}

void end_wait_scope() {
  wait_scopes.pop_back();
}

}  // namespace dist::watch
