#include "tools/watch/observe/call_hooks.hpp"

#include <chrono>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace dist::watch {
namespace {

// A thread's place on the board, which is freed when the thread ends. If too many threads call
// MPI, several share the last place, and a report cannot tell them apart.
struct ThreadPlace {
  ThreadRecord* record;

  explicit ThreadPlace(RankBoard& board) : record(&board.threads.back()) {
    for (ThreadRecord& candidate : board.threads) {
      if (candidate.taken != 0 || !candidate.taken.claim(0, 1)) continue;
      candidate.name = 0;
      candidate.scope = {};
      candidate.call = Call::none;
      candidate.polling = false;
      record = &candidate;
      return;
    }
  }
  ~ThreadPlace() { record->taken = 0; }
};

struct Names {
  std::mutex mutex;
  std::unordered_map<std::string, std::uint16_t> labels;
};
Names& known_names = *new Names;  // threads may outlive static objects

void enter(ThreadRecord& record, Call call, std::span<const Operation> operations,
           std::uint16_t wait_label) {
  const bool polled = record.polling && record.call == call;
  if (is_on(kTrace) && !polled) record.entered_ns = now_ns();
  record.set(call, operations, wait_label);
}

// Returns nullptr if the board has no room for the channel, or it is not known yet: a receive
// from any rank or of any tag is numbered when it finishes.
Channel* channel_of(const Operation& message) {
  RankBoard* const board = my_board();
  if (board == nullptr || message.peer < 0 || message.tag == kAnyTag) return nullptr;
  return board->channel(message.peer, message.tag, message.comm);
}

// Records where a message's arrow leaves or arrives, if there is a trace.
void trace_end_of_arrow(Event::Type type, std::int64_t at_ns, const Operation& message) {
  const ThreadRecord* const record = is_on(kTrace) ? my_thread() : nullptr;
  if (record == nullptr || message.number == 0) return;
  my_board()->record({.begin_ns = at_ns,
                      .number = message.number,
                      .comm = message.comm,
                      .peer = message.peer,
                      .tag = message.tag,
                      .type = type},
                     *record);
}

// The state that a CallScope has replaced. Scopes begin and end through C functions, so they
// are kept on stacks instead of in the caller's objects.
struct Outer {
  bool in_counted_scope;
  Scope scope{};
  std::int64_t begin_ns = 0;  // of the new scope; with a trace only
};

thread_local std::vector<Outer> call_scopes;
thread_local std::deque<Observation> wait_scopes;

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

std::uint64_t bytes_of_message(int count, MPI_Datatype type) {
  if (count == 0) return 0;  // MPI may then ignore the type, which need not be one
  int size = 0;
  PMPI_Type_size(type, &size);
  return static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size);
}

Operation start_message(OperationKind kind, Call call, const void* data, int peer, int tag,
                        int count, MPI_Datatype type, MPI_Comm comm) {
  const CommunicatorInfo& info = info_of(comm);
  Operation message{kind, call, info.world_rank(peer), tag == MPI_ANY_TAG ? kAnyTag : tag,
                    info.id};
  message.bytes = bytes_of_message(count, type);
  const bool probes = kind == OperationKind::probe;
  if (!probes && message.peer != kNobody) message.count_id = count_start(message);
  if (sees_sends != nullptr && kind == OperationKind::send && message.count_id != 0) {
    sees_sends(data, message.bytes);
  }
  if (Channel* const channel = channel_of(message)) {
    auto& counter = kind == OperationKind::send ? channel->sends : channel->receives;
    message.number = (probes ? std::uint32_t{counter} : counter.fetch_add(1)) + 1;
  }
  return message;
}

Operation start_collective(Call call, MPI_Comm comm, std::uint64_t bytes, int root) {
  const CommunicatorInfo& info = info_of(comm);
  Operation collective{OperationKind::collective, call, info.world_rank(root), 0, info.id};
  collective.bytes = bytes;
  collective.count_id = count_start(collective);
  RankBoard* const board = my_board();
  CommunicatorRecord* const record = board == nullptr ? nullptr : board->communicator(info.id);
  if (record != nullptr) {
    collective.number = record->collectives.fetch_add(1) + 1;
    record->last = call;
  }
  return collective;
}

void finish(const Operation& operation, const MPI_Status& status) {
  Operation done = operation;
  if (done.kind == OperationKind::receive && done.peer != kNobody) {
    const bool known = done.peer != kAnyone && done.tag != kAnyTag;
    if (done.peer == kAnyone) done.peer = world_rank_in(done.comm, status.MPI_SOURCE);
    done.tag = status.MPI_TAG;
    if (Channel* const channel = known ? nullptr : channel_of(done)) {
      done.number = channel->receives.fetch_add(1) + 1;
    }
    trace_end_of_arrow(Event::Type::arrival, now_ns(), done);
  }
  count_finish(done);
}

Observation::Observation(Call call, std::span<const Operation> operations,
                         std::uint16_t wait_label) {
  ThreadRecord* const record = my_thread();
  if (record == nullptr) return;
  enter(*record, call, operations, wait_label);
  record->polling = false;
  record->inside = true;
  if (is_on(kTrace)) slice_ = record->slice();
  record->moves.increment();
  for (const Operation& operation : operations) {
    // The message leaves during the call that started the send, not during a wait for that
    // send.
    if (operation.kind == OperationKind::send && operation.call == call) {
      trace_end_of_arrow(Event::Type::departure, slice_.begin_ns, operation);
    }
  }
}

Observation::~Observation() {
  ThreadRecord* const record = my_thread();
  if (record == nullptr) return;
  record->inside = false;
  record->left_at = my_board()->heartbeat;
  record->moves.increment();
  if (slice_.begin_ns == 0) return;
  slice_.end_ns = now_ns();
  my_board()->record(slice_, *record);
}

void note_polling(Call call, std::span<const Operation> operations) {
  ThreadRecord* const record = my_thread();
  if (record == nullptr) return;
  enter(*record, call, operations, /*wait_label=*/0);
  record->polling = true;
}

void begin_call_scope(std::string_view operation, std::string_view subject) {
  Outer& outer = call_scopes.emplace_back(Outer{in_counted_scope});
  if (!subject.empty()) in_counted_scope = subject.starts_with(counted_subject);
  ThreadRecord* const record = my_thread();
  if (record == nullptr) return;
  outer.scope = record->scope;
  if (is_on(kTrace)) outer.begin_ns = now_ns();
  const std::uint16_t name = intern(operation);
  record->scope = {name, intern(subject), my_board()->labels[name].uses.fetch_add(1) + 1};
}

void end_call_scope() {
  const Outer outer = call_scopes.back();
  call_scopes.pop_back();
  in_counted_scope = outer.in_counted_scope;
  ThreadRecord* const record = my_thread();
  if (record == nullptr) return;
  if (outer.begin_ns != 0 && is_on(kTrace)) {
    my_board()->record({.begin_ns = outer.begin_ns,
                        .end_ns = now_ns(),
                        .number = record->scope.number,
                        .call = Call::call_scope,
                        .label = record->scope.name,
                        .subject = record->scope.subject},
                       *record);
  }
  record->scope = outer.scope;
}

void begin_wait_scope(std::string_view what, MPI_Comm comm, int peer) {
  Operation wait{OperationKind::shared_memory, Call::wait_scope, kNobody};
  if (comm != MPI_COMM_NULL && is_on(kBoard)) {
    // A report looks up which ranks kEverybody stands for.
    wait.peer = peer == WaitScope::kAllOthers ? kEverybody : info_of(comm).world_rank(peer);
  }
  wait_scopes.emplace_back(Call::wait_scope, std::span(&wait, 1), intern(what));
}

void end_wait_scope() {
  wait_scopes.pop_back();
}

}  // namespace dist::watch
