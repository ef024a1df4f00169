// What the wrappers of MPI's calls (wrap_*.cpp) do before and after they forward a call to MPI:
// they number its messages, note this thread's call on the board, and write the trace. The
// state is global to the process, because MPI_Send has no parameter for it.
//
// When nothing is switched on, a wrapper costs one relaxed load.
#pragma once

#include "common/watch.hpp"
#include "tools/watch/observe/rank_board.hpp"

#include <mpi.h>

#include <atomic>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dist::watch {

// What is switched on, as bits.
enum Mode : unsigned {
  kBoard = 1,    // there is a board, for the watch or the trace
  kTrace = 2,    // the board records events
  kTraffic = 4,  // count_traffic is running
  kStrict = 8    // sends are synchronous
};
inline std::atomic<unsigned> mode{0};

inline bool is_on(unsigned bits) {
  return (mode.load(std::memory_order_relaxed) & bits) != 0;
}
inline bool observing() {
  return is_on(kBoard | kTraffic);
}

// This rank's board, or nullptr. It is set before any other thread may call MPI.
inline std::atomic<RankBoard*> the_board{nullptr};
inline RankBoard* my_board() {
  return the_board.load(std::memory_order_relaxed);
}
// This thread's record, or nullptr if there is no board.
ThreadRecord* my_thread();
// The label of the name on the board, or 0 if there is no board, the name is empty or the board
// is full.
std::uint16_t intern(std::string_view name);
// Nanoseconds on a clock that all processes of a host share.
std::int64_t now_ns();

// Each start_ function counts the operation, so it is called only once, before the MPI call. A
// message has the same number on both of its ends, and a collective on all ranks, so that a
// report can match them. A probe has the number of the message that it waits for, but does not
// count as a message.
// `data` is what a send sends.
Operation start_message(OperationKind kind, Call call, const void* data, int peer, int tag,
                        int count, MPI_Datatype type, MPI_Comm comm);
// For WatchTable::call_at_sends.
inline void (*sees_sends)(const void* data, std::uint64_t bytes) = nullptr;
constexpr int kNoRoot = MPI_PROC_NULL;
Operation start_collective(Call call, MPI_Comm comm, std::uint64_t bytes, int root);
std::uint64_t bytes_of_message(int count, MPI_Datatype type);

// What the watch knows of a communicator. Its id is the same on all its ranks, because MPI's
// handles are meaningless in a different process (wrap_communicators.cpp).
struct CommunicatorInfo {
  std::uint32_t id = 0;          // 0: not known yet
  std::vector<int> world_ranks;  // by rank
  std::uint32_t children = 0;

  int world_rank(int rank) const;  // kAnyone and kNobody for MPI's special ranks
};
CommunicatorInfo& info_of(MPI_Comm comm);
// Converts a rank of the communicator with this id to its rank in MPI_COMM_WORLD.
int world_rank_in(std::uint32_t id, int rank);

// Remembers what a request is for, until it is completed (wrap_requests.cpp).
void keep_request(MPI_Request request, const Operation& operation);
// How many operations of this process have been started but not completed.
std::size_t open_requests();
// Whether what the request was started for is complete (wrap_persistent.cpp).
bool is_complete(MPI_Request request);
void forget_persistent(MPI_Request request);
// Called just before the wrapper of the completing call returns. Only a receive needs `status`.
void finish(const Operation& operation, const MPI_Status& status);

// Notes that this thread is in `call` for `operations` until the object is destroyed.
class Observation {
 public:
  Observation(Call call, std::span<const Operation> operations, std::uint16_t wait_label = 0);
  ~Observation();
  Observation(Observation&&) = delete;

 private:
  Event slice_;  // begin_ns is 0 if it is not recorded
};

// Notes that this thread tested `operations` without waiting, and that they are not done. This
// does not count as a move, because a program that only polls makes no progress. In the trace,
// the call that succeeds begins where the polling began.
void note_polling(Call call, std::span<const Operation> operations);

// The scopes of this thread, innermost last: CallScope and WaitScope of common/watch.hpp. They
// end in the reverse of the order in which they began.
void begin_call_scope(std::string_view operation, std::string_view subject);
void end_call_scope();
void begin_wait_scope(std::string_view what, MPI_Comm comm, int peer);
void end_wait_scope();

// count_traffic (message_counts.cpp) counts only messages in a scope whose subject begins like
// this, or all if it is empty. A scope without a subject counts like the one around it.
inline std::string counted_subject;
inline thread_local bool in_counted_scope = false;
// For WatchTable. Called while no thread sends. end_count is collective, except that a single
// rank may discard its count by passing nullptr.
bool start_count(std::string_view subject);
int end_count(MPI_Comm comm, Traffic* traffic);
// Called when an operation starts. Returns its count_id, or 0 if it is not counted.
std::uint64_t count_start(const Operation& operation);
void count_finish(const Operation& operation);

}  // namespace dist::watch
