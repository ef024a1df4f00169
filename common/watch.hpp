// What a program can tell the watch (tools/watch/) and ask it. The watch is a separate library.
// Without it, all of this does nothing, and nothing is counted.
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

// Names the purpose of messages, for the trace and for a hang report:
//
//   const CallScope scope("all_reduce", "bucket 2: 2.weight, 2.bias");
//
// turns "ranks 0, 1 in MPI_Sendrecv" into "ranks 0, 1 are in all_reduce #7 (bucket 2: 2.weight,
// 2.bias); rank 2 never entered it, last seen in #6".
//
// From construction to destruction, all messages of this thread belong to `operation`. All
// ranks must run such operations in the same order, because their numbers, counted from 1 on
// each rank, are compared across ranks. `subject` says what the operation works on. Of nested
// scopes, the inner one counts.
class CallScope {
 public:
  explicit CallScope(std::string_view operation, std::string_view subject = {});
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
};

// A wait that is not an MPI call, such as one for a flag in shared memory or a GPU's stream.
//
//   const WaitScope wait("the flag of shared-memory all-reduce", comm, peer);
//   while (flag.load() != expected) { ... }
//
// Entering and leaving such a wait counts as progress, and during the wait a hang report knows
// which ranks this one waits for.
class WaitScope {
 public:
  static constexpr int kAllOthers = -1;
  explicit WaitScope(std::string_view what);  // for no particular rank
  WaitScope(std::string_view what, const Communicator& comm, int peer = kAllOthers);
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;
};

// Names this thread's row in the trace. The thread that starts the program is "main".
void name_this_thread(std::string_view name);

// The messages that one of our collectives sends, counted in a real run.
struct Traffic {
  std::uint64_t messages = 0;  // point-to-point messages of all ranks together
  // The most that any rank sent.
  std::uint64_t messages_per_rank = 0;
  std::uint64_t bytes_per_rank = 0;
  std::vector<int> peers;  // rank 0's destinations, ascending
  // The longest chain of messages that had to wait for each other. A rank can send one message
  // and receive one at the same time, so a send_recv counts once.
  std::uint64_t rounds = 0;
  std::uint64_t collectives = 0;  // the most calls of MPI's collectives on any rank
  // Sends and receives of all ranks that were started but not completed in the body.
  std::uint64_t unfinished = 0;
  // For each rank, the largest difference at any time between the messages that it had sent and
  // those that it had received. Empty without messages.
  std::vector<std::uint64_t> most_ahead;

  bool operator==(const Traffic&) const = default;
};

// Runs body() and counts its messages. Called on all ranks of `comm`, with the same result on
// all. Every message that is sent in `body` must be received in it. Calls cannot be nested.
std::optional<Traffic> count_traffic(const Communicator& comm,
                                     const std::function<void()>& body);

// A flag that the watch has read before MPI started. The program's command line checks and
// explains it.
struct WatchFlag {
  enum class Kind { output_file, yes_or_no, seconds } kind;
  const char* name;
  const char* help;
  double initial = 0;  // for seconds
  double largest = 0;
};

// What the library offers, under the name dist_watch_table.
struct WatchTable {
  std::span<const WatchFlag> flags;
  void (*begin_call)(std::string_view operation, std::string_view subject);
  void (*end_call)();
  // For `peer` of `comm`, or WaitScope::kAllOthers; MPI_COMM_NULL means no particular rank.
  void (*begin_wait)(std::string_view what, MPI_Comm comm, int peer);
  void (*end_wait)();
  void (*name_thread)(std::string_view name);
  bool (*start_count)();  // false: a count is already running
  // Collective, but with nullptr it only ends the count. Returns MPI's status.
  int (*end_count)(MPI_Comm comm, Traffic* traffic);
  // Called on all ranks when they have agreed on their flags. Numbering and tracing begin here;
  // if the flags are refused, no trace is written.
  void (*flags_are_read)(bool accepted);
  // Throws std::runtime_error("flag: why") if this process cannot write `file`, unless it is
  // "".
  void (*require_writable)(const std::string& flag, const std::string& file);
  void (*keep_trace)();  // for a job that is about to end without MPI_Finalize
  // For tests.
  void (*set_strict)(bool on);
  bool (*is_observing)();
  std::uint32_t (*id_of)(MPI_Comm comm);
};

// nullptr in a program that was built without the watch.
const WatchTable* watch_table();

}  // namespace dist
