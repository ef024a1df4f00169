// What the wrappers of MPI's calls do before and after they forward: note on the board what
// this thread is in, and write the trace. Process-wide state, as the profiling interface
// demands: MPI_Send has no parameter for us.
//
// A wrapper costs one relaxed load when nothing is switched on.
#pragma once

#include "tools/watch/board.hpp"
#include "tools/watch/operations.hpp"

#include <atomic>
#include <span>
#include <string_view>

namespace dist::watch {

// What is switched on, as bits.
enum Mode : unsigned {
  kBoard = 1,    // there is a board: for the watch or the trace
  kTrace = 2,    // with events
  kTraffic = 4,  // count_traffic runs
  kStrict = 8    // sends are synchronous
};
extern std::atomic<unsigned> mode;

inline bool is_on(unsigned bits) {
  return (mode.load(std::memory_order_relaxed) & bits) != 0;
}
inline bool observing() {
  return is_on(kBoard | kTraffic);
}
inline bool strict() {
  return is_on(kStrict);
}

// This rank's board, or nullptr. It stays mapped until MPI_Finalize.
RankBoard* my_board();
// Called before any other thread may call MPI, and with nullptr before the memory goes.
void set_my_board(RankBoard* board);

// Nanoseconds of a clock that all processes of a host share.
std::uint64_t now_ns();

// From construction to destruction this thread is in `call`, for `operations`.
class Observation {
 public:
  Observation(Call call, std::span<const Operation> operations, std::uint32_t wait_label = 0);
  Observation(Call call, const Operation& operation)
      : Observation(call, std::span(&operation, 1)) {}
  ~Observation();
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

 private:
  Call call_;
  Operation first_{};
  std::int32_t from_ = kNobody;
  std::uint64_t begin_ns_ = 0;
  std::uint32_t wait_label_;
};

// This thread asked for `operations` without waiting and was told no. That is no move: a
// program that only asks stands still. In the trace the call that gets a yes begins where the
// asking began.
void note_polling(Call call, std::span<const Operation> operations);

// The name as a number on the board; 0 without a board, for "", or when the board is full.
std::uint16_t intern(std::string_view name);
// The record of this thread; nullptr without a board or when too many threads call MPI.
ThreadRecord* my_thread();
// An end of a message's arrow.
void trace_arrow(PlainEvent::Type type, std::uint64_t at_ns, const Operation& operation);
void trace_slice(Call call, std::uint64_t begin_ns, std::uint16_t label, std::uint16_t subject,
                 std::uint32_t number);

}  // namespace dist::watch
