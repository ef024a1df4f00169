// What a program may tell the watch (tools/watch/), and ask it. The watch is a library of its
// own: without it all of this does nothing, and nothing is counted.
#pragma once

#include "common/communicator.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dist {

// Names for what messages are for, shown in the trace and in a hang report:
//
//   const CallScope scope("all_reduce", "bucket 2: 2.weight, 2.bias");
//
// turns "ranks 0, 1 in MPI_Sendrecv" into "ranks 0, 1 are in all_reduce #7 (bucket 2: 2.weight,
// 2.bias); rank 2 never entered it, last seen in #6".
//
// From construction to destruction all messages of this thread belong to `operation`, which is
// one that all ranks do in the same order: its numbers, counted from 1 on each rank, are
// compared over ranks. `subject` says on what. Scopes nest; the inner one counts.
class CallScope {
 public:
  explicit CallScope(std::string_view operation, std::string_view subject = {});
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
};

// Waits that are no call of MPI's: a flag in shared memory, a GPU's stream.
//
//   const WaitScope wait("the flag of shared-memory all-reduce", comm, peer);
//   while (flag.load() != expected) { ... }
//
// Entering and leaving such a wait is a move, and while it lasts a hang report knows whom this
// rank waits for.
class WaitScope {
 public:
  static constexpr int kAllOthers = -1;
  explicit WaitScope(std::string_view what);  // for nobody in particular
  WaitScope(std::string_view what, const Communicator& comm, int peer = kAllOthers);
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;
};

// The row of this thread in the trace. The thread that starts the program is "main".
void name_this_thread(std::string_view name);

// What a collective of ours costs in messages: counted in the real run, not from a formula.
struct Traffic {
  std::uint64_t messages = 0;  // of all ranks together, point to point
  // The most that any rank sent.
  std::uint64_t messages_per_rank = 0;
  std::uint64_t bytes_per_rank = 0;
  std::vector<int> peers;  // rank 0's destinations, ascending
  // The longest chain of messages that had to wait for each other. A rank sends one message at
  // a time and receives one at a time, and may do both at once: a send_recv counts once.
  std::uint64_t rounds = 0;
  std::uint64_t collectives = 0;  // the most calls of MPI's own collectives by any rank
  // Sends and receives, of all ranks, that were started and not waited for when the body ended.
  std::uint64_t unfinished = 0;
  // By rank: the most messages that it had sent beyond those that it had received, at any
  // time. Empty without messages.
  std::vector<std::uint64_t> most_ahead;

  bool operator==(const Traffic&) const = default;
};

// Runs body() and counts its messages. Called on all ranks of `comm`; the same result on all.
// Every message that is sent in `body` must be received in it. Throws Error within a count.
std::optional<Traffic> count_traffic(const Communicator& comm,
                                     const std::function<void()>& body);

// A flag that the watch has read by itself before MPI started. Every program's own command line
// checks and explains it.
struct WatchFlag {
  enum class Kind { output_file, yes_or_no, seconds } kind;
  const char* name;
  const char* help;
  double initial = 0;  // of seconds
  double largest = 0;
};

// What the library offers, by the name dist_watch_table.
struct WatchTable {
  std::span<const WatchFlag> flags;
  void (*begin_call)(std::string_view operation, std::string_view subject);
  void (*end_call)();
  // For `peer` of `comm`, or WaitScope::kAllOthers; MPI_COMM_NULL: nobody in particular.
  void (*begin_wait)(std::string_view what, MPI_Comm comm, int peer);
  void (*end_wait)();
  void (*name_thread)(std::string_view name);
  bool (*start_count)();  // false: one is running
  // Collective; with nullptr it only ends the count. Returns MPI's status.
  int (*end_count)(MPI_Comm comm, Traffic* traffic);
  // On all ranks, when they agree on their flags: what is numbered and traced begins here, or,
  // if the flags are refused, no trace is written.
  void (*flags_are_read)(bool accepted);
  // Throws std::runtime_error("flag: why") if this process cannot write the file; "" is none.
  void (*require_writable)(const std::string& flag, const std::string& file);
  void (*keep_trace)();  // of a job that is about to end without MPI_Finalize
  // For tests.
  void (*set_strict)(bool on);
  bool (*is_observing)();
  std::uint32_t (*id_of)(MPI_Comm comm);
};

// nullptr in a program that was built without the watch.
const WatchTable* watch_table();

}  // namespace dist
