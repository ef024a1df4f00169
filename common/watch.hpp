// What a program can tell the watch (tools/watch/) and ask of it. The watch is a separate
// library. Without that library, these calls do nothing, and no messages are counted.
#pragma once

#include "common/communicator.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dist {

// Names the purpose of messages, for the trace and for a hang report:
//
//   const CallScope scope("all_reduce", "bucket 2: 2.weight, 2.bias");
//
// adds to a hang report: "ranks 0, 1 are in all_reduce #7 (bucket 2: 2.weight, 2.bias); rank 2
// never entered it, last seen in #6".
//
// While the scope exists, all messages of this thread belong to `operation`. All ranks must run
// such operations in the same order, because their numbers, counted from 1 on each rank, are
// compared across ranks. `subject` says what it works on. The innermost scope applies.
class CallScope {
 public:
  explicit CallScope(std::string_view operation, std::string_view subject = {});
  ~CallScope();
  CallScope(CallScope&&) = delete;
};

// A wait that is not an MPI call, such as one for a flag in shared memory or a GPU's stream.
//
//   const WaitScope wait("the flag of shared-memory all-reduce", comm, peer);
//   while (flag.load() != expected) { ... }
//
// Entering or leaving such a wait counts as progress. During the wait, a hang report can tell
// which ranks this rank waits for.
class WaitScope {
 public:
  static constexpr int kAllOthers = -1;
  // Without other ranks in `comm`, the wait is for no particular rank.
  explicit WaitScope(std::string_view what, const Communicator& comm = Communicator::alone(),
                     int peer = kAllOthers);
  ~WaitScope();
  WaitScope(WaitScope&&) = delete;
};

// A stage in which a library starts or ranks connect, such as the first contact between their
// GPUs. Like MPI's own start, it may take longer than --timeout. Its end counts as progress.
class StartScope {
 public:
  StartScope() { set(true); }
  ~StartScope() { set(false); }
  StartScope(StartScope&&) = delete;

 private:
  static void set(bool on);
};

// How this thread waits for messages from now on. MPI polls while it waits, which takes a core
// from whoever else needs it; a patient wait sleeps between its looks. by_load, as every thread
// begins, is patient if this host has more ranks than processors for them. `always` is for a
// thread that shares its core with computing threads, `never` for a measurement of MPI itself.
// Without the watch, every wait polls.
enum class Patience { by_load, always, never };
void set_patience(Patience patience);

// Names this thread's row in the trace. The program's first thread is called "main".
void name_this_thread(std::string_view name);

// The messages that one of our collectives sends, counted in a real run.
struct Traffic {
  std::uint64_t messages = 0;  // the number of point-to-point messages of all ranks together
  // The most messages and bytes that any one rank sent.
  std::uint64_t messages_per_rank = 0;
  std::uint64_t bytes_per_rank = 0;
  std::vector<int> peers;  // rank 0's destinations, ascending
  // The longest chain of messages in which each had to wait for the one before. A rank can send
  // one message and receive another at the same time, so a send_recv counts once.
  std::uint64_t rounds = 0;
  std::uint64_t collectives = 0;  // the most calls to MPI's collectives by any one rank
  std::uint64_t from_anyone = 0;  // receives with MPI_ANY_SOURCE, which is -1 in Open MPI
  // The sends and receives, on all ranks, that were started in body() but not completed there.
  std::uint64_t unfinished = 0;
  // For each rank, the largest surplus, at any moment, of messages sent over messages received.
  // Empty if there were no messages.
  std::vector<std::uint64_t> most_ahead;
  // All messages; those of a rank are in the order in which it sent them.
  struct Message {
    int from, to;         // ranks of the communicator; -1: not one of them
    std::uint64_t round;  // in which it travels, from 1
    bool operator==(const Message&) const = default;
  };
  std::vector<Message> sent;

  bool operator==(const Traffic&) const = default;
};

// Runs body() and counts its messages. Called on all ranks of `comm`; all get the same result:
// nullopt if any rank of the program runs without the watch.
// Every message that is sent in `body` must also be received there. Calls cannot be nested.
// With a `subject`, counts only messages in a CallScope whose subject begins like that.
std::optional<Traffic> count_traffic(const Communicator& comm,
                                     const std::function<void()>& body,
                                     std::string_view subject = {});

// The flags of the watch, which has them before MPI starts (read_watch_flags).
struct WatchFlags {
  std::string trace;  // file; empty: none
  bool strict = false;
  double timeout_s = 60;  // 0: never
};

// The functions that the watch library exports under the name dist_watch_table.
struct WatchTable {
  // Called before MPI starts. The flags of a program that does not call this are the defaults.
  void (*set_flags)(const WatchFlags& flags);
  void (*begin_call)(std::string_view operation, std::string_view subject);
  void (*end_call)();
  // Begins a wait for `peer` of `comm`, or for WaitScope::kAllOthers. MPI_COMM_NULL means that
  // the wait is for no particular rank.
  void (*begin_wait)(std::string_view what, MPI_Comm comm, int peer);
  void (*end_wait)();
  void (*set_starting)(bool on);  // for StartScope
  // Ranks that all compute are no hang, however long they do, unless `on`: for code of a
  // reader, which may have an endless loop. Only processor time counts.
  void (*limit_computing)(bool on);
  double (*timeout_s)();  // --timeout; 0: never
  void (*name_thread)(std::string_view name);
  void (*set_patience)(Patience patience);
  // What this rank's watch does, as bits: counts messages, observes, traces.
  unsigned (*duties)();
  static constexpr unsigned kCounts = 1, kObserves = 2, kTraces = 4;
  // Called on all ranks once the flags are read: the duties that the watches of all ranks have.
  // What ranks do together, they do only if all of them can. Until then, a watch assumes that
  // all are like itself.
  void (*agree_on_duties)(unsigned of_all);
  bool (*all_count)();
  bool (*start_count)(std::string_view subject);  // returns false if a count is running
  // Collective, unless `traffic` is nullptr: that only ends the count. Returns MPI's status.
  int (*end_count)(MPI_Comm comm, Traffic* traffic);
  // Called on all ranks after they have agreed on their flags and duties. Numbering and tracing
  // begin with this call. If the flags are refused, no trace is written.
  void (*flags_are_read)(bool accepted);
  // Called on all ranks before the last line: writes the trace, or ends the job if it cannot.
  void (*finish_trace)();
  void (*keep_trace)();  // called in a job that is about to end without MPI_Finalize
  // From now on, calls escaped(text) before MPI_Finalize ("called MPI_Finalize") or MPI_Abort.
  void (*call_before_end)(void (*escaped)(const char* call));
  // Calls sees(data, bytes) when a message that is counted is about to be sent, in the thread
  // that sends it; no longer if it is nullptr. Called while no thread sends.
  void (*call_at_sends)(void (*sees)(const void* data, std::uint64_t bytes));
  // How many sends and receives of this process were started and are not complete.
  std::size_t (*open_requests)();
  // For tests.
  void (*set_strict)(bool on);
  bool (*is_observing)();
};

// Returns nullptr in a program that was built without the watch.
const WatchTable* watch_table();

}  // namespace dist
