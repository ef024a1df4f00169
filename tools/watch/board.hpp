// The board of a host shows what each of its ranks is doing. All of these ranks share the
// board's memory.
//
// A rank writes its own part and reads the others' parts without a lock and without their help,
// so it also sees a rank that is stopped or spins forever. The fields that a report reads are
// relaxed atomics. They need not be consistent with each other while a rank moves, because a
// report reads them only after no rank has moved for seconds.
#pragma once

#include "tools/watch/call.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace dist::watch {

template <class T>
class Relaxed {
 public:
  Relaxed& operator=(T value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  operator T() const { return value_.load(std::memory_order_relaxed); }
  // For a field that only one thread writes. Unlike fetch_add, this needs no bus lock.
  void increment() { *this = static_cast<T>(*this + 1); }
  T fetch_add(T more) { return value_.fetch_add(more, std::memory_order_relaxed); }
  bool claim(T from, T to) { return value_.compare_exchange_strong(from, to); }
  // What was written before publish(value) is visible to a thread that reads it with
  // acquired().
  void publish(T value) { value_.store(value, std::memory_order_release); }
  T acquired() const { return value_.load(std::memory_order_acquire); }

 private:
  std::atomic<T> value_{};
  static_assert(std::atomic<T>::is_always_lock_free);
};

// One thing that a call waits for: a message to or from a rank, or a collective.
enum class OperationKind : std::uint8_t { send, receive, probe, collective, shared_memory };

struct OperationFields {
  Relaxed<OperationKind> kind;
  Relaxed<Call> call;          // what started it
  Relaxed<std::int32_t> peer;  // in MPI_COMM_WORLD, or kAnyone, kEverybody, kNobody
  Relaxed<std::int32_t> tag;
  Relaxed<std::uint32_t> comm;
  Relaxed<std::uint32_t> number;  // counted per channel or per communicator, from 1
  Relaxed<std::uint64_t> bytes;
};

constexpr std::int32_t kAnyone = -1;     // a receive from any rank
constexpr std::int32_t kEverybody = -2;  // a wait for all other ranks
constexpr std::int32_t kNobody = -3;     // MPI_PROC_NULL
constexpr std::int32_t kAnyTag = -1;

// The current or last call of a thread.
struct ThreadRecord {
  static constexpr std::size_t kOperations = 8;  // operations beyond these are only counted

  Relaxed<std::uint32_t> taken;
  Relaxed<std::uint32_t> name;        // label
  Relaxed<std::uint64_t> moves;       // how often the thread has entered or left a call
  Relaxed<std::uint64_t> left_at;     // this rank's heartbeat when the thread last left a call
  Relaxed<std::uint64_t> entered_ns;  // with a trace only
  Relaxed<Call> call;
  Relaxed<bool> inside;
  Relaxed<bool> polling;  // MPI_Test or the like returned false, and no other call followed
  Relaxed<std::uint32_t> wait_label;
  Relaxed<std::uint32_t> scope;    // label: the operation that this call is part of
  Relaxed<std::uint32_t> subject;  // label: what the operation works on
  Relaxed<std::uint32_t> scope_number;
  Relaxed<std::uint32_t> operation_count;
  std::array<OperationFields, kOperations> operations;
};

// Messages between this rank and one peer with one tag on one communicator.
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

struct Label {
  static constexpr std::size_t kLength = 60;
  std::array<Relaxed<char>, kLength> text;
  Relaxed<std::uint32_t> uses;  // how often a CallScope of this name was entered

  void set(std::string_view name);
  std::string get() const;
};

// One line of the trace: a slice (a call or a scope) or one end of an arrow.
struct PlainEvent {
  enum class Type : std::uint8_t { slice, departure, arrival };

  std::int64_t begin_ns;  // on the board, by its rank's clock; in a trace, by rank 0's
  std::int64_t end_ns;
  std::uint64_t bytes;
  std::uint32_t number;
  std::uint32_t comm;
  std::int32_t peer;
  std::int32_t tag;
  std::int32_t from;
  Call call;
  std::uint16_t label;
  std::uint16_t subject;
  std::uint8_t thread;
  Type type;
};

struct TraceEvent : PlainEvent {
  Relaxed<std::uint64_t> written;  // its number in the ring + 1, set last
};
static_assert(sizeof(TraceEvent) == 64);

struct RankBoard {
  static constexpr std::size_t kThreads = 32;
  static constexpr std::size_t kChannels = 512;
  static constexpr std::size_t kCommunicators = 128;
  static constexpr std::size_t kLabels = 256;

  Relaxed<std::int32_t> rank;  // in MPI_COMM_WORLD
  Relaxed<std::int32_t> pid;   // 0: this rank has not reached MPI_Init yet
  Relaxed<bool> working;       // between MPI_Init and MPI_Finalize, except in a StartScope
  std::array<char, 64> host_name;
  Relaxed<std::uint64_t> heartbeat;    // ticks of its watch thread
  Relaxed<std::uint64_t> computed_ns;  // by its main thread outside waits, up to its last move
  Relaxed<std::uint64_t> other_moves;  // ends of StartScopes; moves of threads beyond kThreads
  std::array<ThreadRecord, kThreads> threads;
  std::array<Channel, kChannels> channels;
  std::array<CommunicatorRecord, kCommunicators> communicators;
  std::array<Label, kLabels> labels;  // 0: no name
  Relaxed<std::uint32_t> label_count;

  Relaxed<std::int64_t> clock_offset_ns;  // add this to this rank's clock to get rank 0's
  Relaxed<std::uint64_t> events_written;
  Relaxed<std::uint64_t> event_capacity;  // 0: no trace
  // The events follow this struct in memory.
  TraceEvent* events() { return reinterpret_cast<TraceEvent*>(this + 1); }
  const TraceEvent* events() const { return reinterpret_cast<const TraceEvent*>(this + 1); }

  std::uint64_t moves() const;
  // Forgets what this rank has counted and recorded so far.
  void reset();
};

// Returns the channel with these values, or a new one. Returns nullptr if the board is full;
// reports are then less detailed, but nothing else is lost.
Channel* find_channel(RankBoard& board, std::int32_t peer, std::int32_t tag,
                      std::uint32_t comm);
CommunicatorRecord* find_communicator(RankBoard& board, std::uint32_t id);
}  // namespace dist::watch
