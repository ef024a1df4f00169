// What the wrappers of MPI's calls do before and after they forward a call: they note this
// thread's call on the board and write the trace. The state is global to the process, because
// MPI_Send has no parameter for it.
//
// When nothing is switched on, a wrapper costs one relaxed load.
#pragma once

#include "tools/watch/board.hpp"
#include "tools/watch/operations.hpp"

#include <atomic>
#include <span>
#include <string_view>

namespace dist::watch {

// What is switched on, as bits.
enum Mode : unsigned {
  kBoard = 1,    // there is a board, for the watch or the trace
  kTrace = 2,    // the board records events
  kTraffic = 4,  // count_traffic is running
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
// Called before any other thread may call MPI, and with nullptr before the memory is unmapped.
void set_my_board(RankBoard* board);

// Nanoseconds on a clock that all processes of a host share.
std::uint64_t now_ns();

// Notes that this thread is in `call` for `operations` until the object is destroyed.
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

// Notes that this thread tested `operations` without waiting, and that they are not done. This
// does not count as a move, because a program that only polls makes no progress. In the trace,
// the call that succeeds begins where the polling began.
void note_polling(Call call, std::span<const Operation> operations);

// The number of the name on the board, or 0 if there is no board, the name is empty or the
// board is full.
std::uint16_t intern(std::string_view name);
// This thread's record, or nullptr if there is no board or too many threads call MPI.
ThreadRecord* my_thread();
// Records one end of a message's arrow.
void trace_arrow(PlainEvent::Type type, std::uint64_t at_ns, const Operation& operation);
void trace_slice(Call call, std::uint64_t begin_ns, std::uint16_t label, std::uint16_t subject,
                 std::uint32_t number);

}  // namespace dist::watch
