// What the wrappers of MPI's calls do before and after they forward: note on the board what
// this thread is in, write the trace, keep the log of messages. Process-wide state, as the
// profiling interface demands: MPI_Send has no parameter for us.
//
// A wrapper whose spy is off costs one relaxed load.
#pragma once

#include "tools/watch/board.hpp"

#include <mpi.h>

#include <atomic>
#include <optional>
#include <span>
#include <string_view>

namespace dist::diagnostics {

// What is switched on, as bits.
enum Mode : unsigned {
  kBoard = 1,    // there is a board: for the watch or the trace
  kTrace = 2,    // with events
  kTraffic = 4,  // count_traffic runs
  kStrict = 8    // sends are synchronous
};
inline std::atomic<unsigned> mode{0};

inline bool spying() {
  return (mode.load(std::memory_order_relaxed) & (kBoard | kTraffic)) != 0;
}
inline bool strict() {
  return (mode.load(std::memory_order_relaxed) & kStrict) != 0;
}

// This rank's board, or nullptr. It stays mapped until MPI_Finalize.
RankBoard* my_board();
// Called before any other thread may call MPI, and with nullptr before the memory goes.
void set_my_board(RankBoard* board);

// Nanoseconds of a clock that all processes of a host share.
std::uint64_t now_ns();

// One message or collective that a call starts or waits for.
struct Operation {
  OperationKind kind;
  Call call;
  std::int32_t peer;  // in MPI_COMM_WORLD; for a collective its root, or kEverybody
  std::int32_t tag;
  std::uint32_t comm;
  std::uint32_t number;
  std::uint64_t bytes;
  std::uint64_t log_id;
};

// The root of a collective that has none.
constexpr int kNoRoot = -1;

// These count the operation, so each is called once per message, before MPI is.
Operation start_send(Call call, int dest, int tag, int count, MPI_Datatype type, MPI_Comm comm);
Operation start_receive(Call call, int source, int tag, int count, MPI_Datatype type,
                        MPI_Comm comm);
Operation start_collective(Call call, MPI_Comm comm, std::uint64_t bytes, int root);
// The same by the communicator's id, which outlives its handle.
Operation start_collective(Call call, std::uint32_t comm, std::uint64_t bytes,
                           std::int32_t root_in_world);
// A probe is no message.
Operation probe(Call call, int source, int tag, MPI_Comm comm);
// Bytes of `count` elements.
std::uint64_t bytes_of_message(int count, MPI_Datatype type);

// Called while the call that completes it has not returned yet. `status` is read for a receive.
void finish(const Operation& operation, const MPI_Status& status);

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
// program that only asks stands still.
void note_polling(Call call, std::span<const Operation> operations);

// Operations under way, by request. Open MPI hands out one and the same request for all sends
// that are done at once, so a request may stand for several; the oldest comes first.
void keep_request(MPI_Request request, const Operation& operation);
std::optional<Operation> find_request(MPI_Request request);
void forget_request(MPI_Request request);

// The name as a number on the board; 0 without a board, for "", or when the board is full.
std::uint16_t intern(std::string_view name);
// The record of this thread; nullptr without a board or when too many threads call MPI.
ThreadRecord* my_thread();
void trace_slice(Call call, std::uint64_t begin_ns, std::uint16_t label, std::uint16_t subject,
                 std::uint32_t number);

}  // namespace dist::diagnostics
