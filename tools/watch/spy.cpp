#include "tools/watch/spy.hpp"

#include "tools/watch/communicators.hpp"
#include "tools/watch/traffic_log.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <unordered_map>

namespace dist::diagnostics {
namespace {

std::atomic<RankBoard*> the_board{nullptr};

bool has(Mode bit) {
  return (mode.load(std::memory_order_relaxed) & bit) != 0;
}

// A thread's place on the board, given back when the thread ends.
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
    // The board may be gone by now.
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

// Makes the event visible to whoever writes the trace, in this process or another.
void publish(TraceEvent& event, std::uint64_t index) {
  std::atomic_thread_fence(std::memory_order_release);
  event.written = index + 1;
}

void trace_arrow(TraceEvent::Type type, std::uint64_t at_ns, const Operation& operation) {
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
  publish(event, index);
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

struct Requests {
  std::mutex mutex;
  // Equal keys stay in the order in which they were inserted.
  std::unordered_multimap<MPI_Request, Operation> operations;
};

Requests& requests() {
  static auto* const the_requests = new Requests;
  return *the_requests;
}

struct Names {
  std::mutex mutex;
  std::unordered_map<std::string, std::uint16_t> numbers;
};

Names& names() {
  static auto* const the_names = new Names;
  return *the_names;
}

std::uint64_t log_if_on(const LogEntry& entry) {
  return has(kTraffic) ? append_to_log(entry) : 0;
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
  // steady_clock is CLOCK_MONOTONIC, which counts from the start of the host.
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

std::uint64_t bytes_of_message(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size);
}

Operation start_send(Call call, int dest, int tag, int count, MPI_Datatype type,
                     MPI_Comm comm) {
  const CommunicatorInfo& info = info_of(comm);
  Operation send{.kind = OperationKind::send,
                 .call = call,
                 .peer = info.world_rank(dest),
                 .tag = tag,
                 .comm = info.id,
                 .number = 0,
                 .bytes = bytes_of_message(count, type),
                 .log_id = 0};
  if (send.peer == kNobody) return send;
  send.log_id = log_if_on({LogEntry::Type::send, info.id, send.peer, tag, send.bytes, 0});
  if (RankBoard* const board = my_board()) {
    if (Channel* const channel = find_channel(*board, send.peer, tag, info.id)) {
      send.number = channel->sends.fetch_add(1) + 1;
    }
  }
  return send;
}

Operation start_receive(Call call, int source, int tag, int count, MPI_Datatype type,
                        MPI_Comm comm) {
  Operation receive = probe(call, source, tag, comm);
  receive.kind = OperationKind::receive;
  receive.bytes = bytes_of_message(count, type);
  if (receive.peer == kNobody) return receive;
  receive.number = 0;
  receive.log_id =
      log_if_on({LogEntry::Type::receive, receive.comm, receive.peer, tag, receive.bytes, 0});
  if (receive.peer == kAnyone || receive.tag == kAnyTag) return receive;  // known by its end
  if (RankBoard* const board = my_board()) {
    if (Channel* const channel = find_channel(*board, receive.peer, tag, receive.comm)) {
      receive.number = channel->receives.fetch_add(1) + 1;
    }
  }
  return receive;
}

Operation probe(Call call, int source, int tag, MPI_Comm comm) {
  const CommunicatorInfo& info = info_of(comm);
  Operation probe{.kind = OperationKind::probe,
                  .call = call,
                  .peer = info.world_rank(source),
                  .tag = tag == MPI_ANY_TAG ? kAnyTag : tag,
                  .comm = info.id,
                  .number = 0,
                  .bytes = 0,
                  .log_id = 0};
  if (probe.peer >= 0 && probe.tag != kAnyTag) {
    if (RankBoard* const board = my_board()) {
      if (Channel* const channel = find_channel(*board, probe.peer, tag, info.id)) {
        probe.number = channel->receives + 1;  // the message that it waits for
      }
    }
  }
  return probe;
}

Operation start_collective(Call call, MPI_Comm comm, std::uint64_t bytes, int root) {
  const CommunicatorInfo& info = info_of(comm);
  return start_collective(call, info.id, bytes, root < 0 ? kEverybody : info.world_rank(root));
}

Operation start_collective(Call call, std::uint32_t comm, std::uint64_t bytes,
                           std::int32_t root_in_world) {
  Operation collective{.kind = OperationKind::collective,
                       .call = call,
                       .peer = root_in_world,
                       .tag = 0,
                       .comm = comm,
                       .number = 0,
                       .bytes = bytes,
                       .log_id = 0};
  collective.log_id =
      log_if_on({LogEntry::Type::collective, comm, collective.peer, 0, bytes, 0});
  if (RankBoard* const board = my_board()) {
    if (CommunicatorRecord* const record = find_communicator(*board, comm)) {
      collective.number = record->collectives.fetch_add(1) + 1;
      record->last = call;
    }
  }
  return collective;
}

void finish(const Operation& operation, const MPI_Status& status) {
  Operation done = operation;
  if (done.kind == OperationKind::receive && done.peer != kNobody) {
    const bool resolved = done.peer != kAnyone && done.tag != kAnyTag;
    if (done.peer == kAnyone) done.peer = world_rank_in(done.comm, status.MPI_SOURCE);
    done.tag = status.MPI_TAG;
    if (!resolved && my_board() != nullptr) {
      if (Channel* const channel = find_channel(*my_board(), done.peer, done.tag, done.comm)) {
        done.number = channel->receives.fetch_add(1) + 1;
      }
    }
    if (has(kTrace)) trace_arrow(TraceEvent::Type::arrival, now_ns(), done);
  }
  if (done.log_id != 0 && has(kTraffic)) {
    append_to_log(
        {LogEntry::Type::finish, done.comm, done.peer, done.tag, done.bytes, done.log_id});
  }
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
  if (ThreadRecord* const record = my_place().record) {
    put(*record, call, operations);
    record->wait_label = wait_label;
    record->polling = false;
    record->inside = true;
    record->moves.increment();
  } else {
    board->overflow_moves.fetch_add(1);
  }
  if (!has(kTrace)) return;
  begin_ns_ = now_ns();
  if (my_place().record != nullptr) my_place().record->entered_ns = begin_ns_;
  for (const Operation& operation : operations) {
    // A wait for a send is not where the message left.
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
    board->overflow_moves.fetch_add(1);
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
  publish(event, index);
}

void note_polling(Call call, std::span<const Operation> operations) {
  ThreadRecord* const record = my_thread();
  if (record == nullptr) return;
  put(*record, call, operations);
  record->wait_label = 0;
  record->polling = true;
}

void keep_request(MPI_Request request, const Operation& operation) {
  if (request == MPI_REQUEST_NULL) return;
  const std::lock_guard lock(requests().mutex);
  requests().operations.emplace(request, operation);
}

std::optional<Operation> find_request(MPI_Request request) {
  if (request == MPI_REQUEST_NULL) return std::nullopt;
  const std::lock_guard lock(requests().mutex);
  const auto found = requests().operations.find(request);
  if (found == requests().operations.end()) return std::nullopt;
  return found->second;
}

void forget_request(MPI_Request request) {
  const std::lock_guard lock(requests().mutex);
  const auto found = requests().operations.find(request);
  if (found != requests().operations.end()) requests().operations.erase(found);
}

void trace_slice(Call call, std::uint64_t begin_ns, std::uint16_t label, std::uint16_t subject,
                 std::uint32_t number) {
  RankBoard* const board = my_board();
  if (board == nullptr || !has(kTrace)) return;
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
  publish(event, index);
}

}  // namespace dist::diagnostics
