// A rank's board shows what the rank is doing. The ranks of a host share the memory of their
// boards (host_boards.hpp).
//
// A rank writes its own board and reads the others' without a lock and without their help, so
// it also sees a rank that is stopped or spins forever. The fields that a report reads are
// relaxed atomics. They need not be consistent with each other while a rank moves, because a
// report reads them only after no rank has moved for seconds.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dist::watch {

// The calls that the watch sees. They are numbered because a pointer to a name is meaningless
// in a different process. A new one also needs a wrapper (wrap_*.cpp).
// clang-format off
#define DIST_WATCHED_CALLS(CALL)                                                               \
  CALL(none) CALL(wait_scope) CALL(call_scope) CALL(MPI_Init)                                  \
  CALL(MPI_Send) CALL(MPI_Ssend) CALL(MPI_Bsend) CALL(MPI_Rsend) CALL(MPI_Recv)                \
  CALL(MPI_Isend) CALL(MPI_Issend) CALL(MPI_Ibsend) CALL(MPI_Irecv) CALL(MPI_Start)            \
  CALL(MPI_Sendrecv) CALL(MPI_Sendrecv_replace) CALL(MPI_Probe) CALL(MPI_Iprobe)               \
  CALL(MPI_Wait) CALL(MPI_Waitall) CALL(MPI_Waitany) CALL(MPI_Waitsome)                        \
  CALL(MPI_Test) CALL(MPI_Testall) CALL(MPI_Testany) CALL(MPI_Testsome)                        \
  CALL(MPI_Barrier) CALL(MPI_Bcast) CALL(MPI_Gather) CALL(MPI_Gatherv) CALL(MPI_Scatter)       \
  CALL(MPI_Scatterv) CALL(MPI_Allgather) CALL(MPI_Allgatherv) CALL(MPI_Alltoall)               \
  CALL(MPI_Reduce) CALL(MPI_Allreduce) CALL(MPI_Reduce_scatter)                                \
  CALL(MPI_Reduce_scatter_block) CALL(MPI_Scan) CALL(MPI_Exscan)                               \
  CALL(MPI_Ibarrier) CALL(MPI_Ibcast) CALL(MPI_Igather) CALL(MPI_Iscatter)                     \
  CALL(MPI_Iallgather) CALL(MPI_Iallgatherv) CALL(MPI_Ireduce) CALL(MPI_Iallreduce)            \
  CALL(MPI_Ireduce_scatter_block)                                                              \
  CALL(MPI_Comm_dup) CALL(MPI_Comm_split) CALL(MPI_Comm_split_type) CALL(MPI_Comm_create)      \
  CALL(MPI_Finalize)
// clang-format on
#define DIST_ENUMERATOR(name) name,
enum class Call : std::uint16_t { DIST_WATCHED_CALLS(DIST_ENUMERATOR) };
#undef DIST_ENUMERATOR
std::string name_of(Call call);

template <class T>
class Relaxed {
 public:
  Relaxed(T value = {}) : value_(value) {}
  Relaxed(const Relaxed& other) : Relaxed(T{other}) {}
  Relaxed& operator=(const Relaxed& other) { return *this = T{other}; }
  Relaxed& operator=(T value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  operator T() const { return value_.load(std::memory_order_relaxed); }  // +x for fmt
  // For a field that only one thread writes. Unlike fetch_add, this needs no bus lock.
  void increment() { *this = static_cast<T>(*this + 1); }
  T fetch_add(T more) { return value_.fetch_add(more, std::memory_order_relaxed); }
  bool claim(T from, T to) { return value_.compare_exchange_strong(from, to); }
  // A thread that reads the value with acquired() also sees all that was written before
  // publish(value).
  void publish(T value) { value_.store(value, std::memory_order_release); }
  T acquired() const { return value_.load(std::memory_order_acquire); }

 private:
  std::atomic<T> value_;
  static_assert(std::atomic<T>::is_always_lock_free);
};

constexpr std::int32_t kAnyone = -1;     // a receive from any rank
constexpr std::int32_t kEverybody = -2;  // a wait for all other ranks
constexpr std::int32_t kNobody = -3;     // MPI_PROC_NULL
constexpr std::int32_t kAnyTag = -1;

enum class OperationKind : std::uint8_t { send, receive, probe, collective, shared_memory };

// One thing that a call starts or waits for: a message to or from a rank, or a collective.
struct Operation {
  Relaxed<OperationKind> kind{};
  Relaxed<Call> call{};          // what started it
  Relaxed<std::int32_t> peer{};  // in MPI_COMM_WORLD or one of the above; a collective's root
  Relaxed<std::int32_t> tag{};
  Relaxed<std::uint32_t> comm{};    // CommunicatorInfo
  Relaxed<std::uint32_t> number{};  // per channel or communicator, from 1; 0: not counted
  Relaxed<std::uint64_t> bytes{};
  Relaxed<std::uint64_t> count_id{};  // message_counts.cpp
};

// One line of the trace: a slice (a call or a scope) or one end of an arrow.
struct Event {
  enum class Type : std::uint8_t { slice, departure, arrival };

  std::int64_t begin_ns = 0;  // by the clock of its rank's host
  std::int64_t end_ns = 0;
  std::uint64_t bytes = 0;
  std::uint32_t number = 0;
  std::uint32_t comm = 0;
  std::int32_t peer = kNobody;
  std::int32_t tag = 0;
  std::int32_t from = kNobody;
  Call call = Call::none;
  std::uint16_t label = 0;
  std::uint16_t subject = 0;
  std::uint8_t thread = 0;
  Type type = Type::slice;
};

struct RecordedEvent : Event {
  Relaxed<std::uint64_t> written;  // its number among the rank's events, from 1; set last
};
static_assert(sizeof(RecordedEvent) == 64);

// A CallScope, or no scope if the labels are 0.
struct Scope {
  Relaxed<std::uint16_t> name{};     // label
  Relaxed<std::uint16_t> subject{};  // label: what it works on
  Relaxed<std::uint32_t> number{};
};

// The current or last call of a thread.
struct ThreadRecord {
  static constexpr std::size_t kOperations = 8;  // those beyond are only counted

  Relaxed<std::uint32_t> taken;
  Relaxed<std::uint16_t> name;       // label
  Relaxed<std::uint64_t> moves;      // how often the thread has entered or left a call
  Relaxed<std::uint64_t> left_at;    // this rank's heartbeat when the thread last left a call
  Relaxed<std::int64_t> entered_ns;  // with a trace only
  Relaxed<Call> call;
  Relaxed<bool> inside;
  Relaxed<bool> polling;  // MPI_Test or the like returned false, and no other call followed
  Relaxed<std::uint16_t> wait_label;
  Scope scope;  // that this call is part of
  Relaxed<std::uint32_t> operation_count;
  std::array<Operation, kOperations> first_operations;

  std::span<const Operation> operations() const {
    return std::span(first_operations)
        .first(std::min<std::size_t>(operation_count, kOperations));
  }
  // Called by the thread itself.
  void set(Call new_call, std::span<const Operation> operations, std::uint16_t new_wait_label);
  Event slice() const;  // the call as an event that has not ended
};

// The messages between this rank and one peer with one tag on one communicator.
struct Channel {
  Relaxed<std::uint64_t> key;  // 0: free
  Relaxed<std::int32_t> peer;
  Relaxed<std::int32_t> tag;
  Relaxed<std::uint32_t> comm;
  Relaxed<std::uint32_t> sends;     // that have been started
  Relaxed<std::uint32_t> receives;  // that have been started
};

struct CommunicatorRecord {
  Relaxed<std::uint32_t> id;           // 0: free
  Relaxed<std::uint32_t> collectives;  // that have been started
  Relaxed<Call> last;
};

// A name. A label's number stands for it, because processes cannot share pointers.
struct Label {
  static constexpr std::size_t kLength = 60;
  std::array<Relaxed<char>, kLength> text;
  Relaxed<std::uint32_t> uses;  // how often a CallScope of this name was entered

  void set(std::string_view name);
  std::string get() const;
};

// Zeroed memory is an empty board, so no rank has to wait for another one's initialization.
struct RankBoard {
  static constexpr std::size_t kThreads = 32;
  static constexpr std::size_t kChannels = 512;
  static constexpr std::size_t kCommunicators = 128;
  static constexpr std::size_t kLabels = 256;

  Relaxed<std::int32_t> rank;        // in MPI_COMM_WORLD
  Relaxed<std::int32_t> world_size;  // 0: MPI has not started yet
  Relaxed<std::int32_t> pid;         // 0: this rank has not reached MPI_Init yet
  Relaxed<bool> working;  // between MPI_Init and MPI_Finalize, except in a StartScope
  Relaxed<bool> computing_is_limited;  // WatchTable::limit_computing
  // Processor time of the main thread since the last move, outside MPI.
  Relaxed<std::uint64_t> computing_ns;
  std::array<char, 64> host_name;
  Relaxed<std::uint64_t> heartbeat;    // ticks of its watch thread
  Relaxed<std::uint64_t> computed_ns;  // by its main thread outside waits, up to its last move
  Relaxed<std::uint64_t> starts;       // ends of StartScopes
  std::array<ThreadRecord, kThreads> threads;
  std::array<Channel, kChannels> channels;
  std::array<CommunicatorRecord, kCommunicators> communicators;
  std::array<Label, kLabels> labels;  // 0: no name
  Relaxed<std::uint32_t> label_count;

  // Add this to the host's clock to get rank 0's. The host's first rank notes it on all boards.
  Relaxed<std::int64_t> clock_offset_ns;
  Relaxed<std::uint64_t> events_written;
  Relaxed<std::uint64_t> event_capacity;  // 0: no trace
  // The latest events follow this struct in memory.
  RecordedEvent* events() { return reinterpret_cast<RecordedEvent*>(this + 1); }
  const RecordedEvent* events() const {
    return reinterpret_cast<const RecordedEvent*>(this + 1);
  }

  std::uint64_t moves() const;
  std::string label(std::uint16_t number) const { return labels[number % kLabels].get(); }
  // Returns the channel with these values, or a new one. These two return nullptr if the board
  // is full; reports are then less detailed, but nothing else is lost.
  Channel* channel(std::int32_t peer, std::int32_t tag, std::uint32_t comm);
  CommunicatorRecord* communicator(std::uint32_t id);
  // Adds an event of `thread`, one of this board's, to the trace.
  void record(Event event, const ThreadRecord& thread);
  // Forgets what this rank has counted and recorded so far.
  void reset();
};

// Spreads nearby numbers over 64 bits (the finalizer of splitmix64).
std::uint64_t mix(std::uint64_t x);

}  // namespace dist::watch
