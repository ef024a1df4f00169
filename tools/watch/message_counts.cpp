// While a count is running, each rank logs its messages in the order of its calls. At the end,
// all ranks get all logs, and each computes the same result from them.
// Look at: Replay, which counts rounds by giving every rank a clock that counts messages.
#include "tools/watch/message_counts.hpp"

#include "tools/watch/call_hooks.hpp"
#include "tools/watch/communicators.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dist::watch {
namespace {

// The start of a send, receive or collective, or the end of a send or receive.
struct LogEntry : Operation {
  bool finish = false;
};
using Log = std::vector<LogEntry>;

struct LogOfThisRank {
  std::mutex mutex;
  bool on = false;
  std::uint64_t last_id = 0;
  Log entries;
};

LogOfThisRank& the_log() {
  static auto* const log = new LogOfThisRank;  // threads may outlive static objects
  return *log;
}

std::uint64_t append(const Operation& operation, bool finish) {
  LogOfThisRank& log = the_log();
  const std::lock_guard lock(log.mutex);
  if (!log.on) return 0;
  LogEntry& entry = log.entries.emplace_back(LogEntry{operation, finish});
  if (entry.count_id == 0) entry.count_id = ++log.last_id;
  return entry.count_id;
}

// Counts rounds (common/watch.hpp). Every message takes one round of its sender's sending side
// and one round of its receiver's receiving side. A rank's clock tells in which round its next
// call begins:
//
//   send      takes the next free sending round; the message arrives one round later
//   receive   takes the next free receiving round that does not end before the arrival
//   finish    advances the clock to the round in which the send or receive is done
//
// A blocking call is a start followed by its finish, a send_recv is two starts and two
// finishes, and an isend finishes in its wait. The result is the clock of the rank that ends
// last.
class Replay {
 public:
  explicit Replay(std::vector<Log> logs) : logs_(std::move(logs)), ranks_(logs_.size()) {
    for (Log& log : logs_) resolve_wildcards(log);
  }

  std::uint64_t run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < logs_.size(); ++rank) {
        while (ranks_[rank].next < logs_[rank].size() && step(static_cast<int>(rank))) {
          moved = true;
        }
      }
    }
    std::uint64_t last = 0;
    for (const Rank& rank : ranks_) last = std::max({last, rank.clock, rank.sends_until});
    return last;
  }

 private:
  struct Started {
    const LogEntry* entry;
    std::uint64_t at;       // for a receive, when it was posted; for a send, when it is done
    std::uint64_t message;  // for a receive, its message's number in the channel
  };
  struct Rank {
    std::size_t next = 0;
    std::uint64_t clock = 0;
    std::uint64_t sends_until = 0;
    std::uint64_t receives_until = 0;
    std::unordered_map<std::uint64_t, Started> started;
  };
  using Channel = std::tuple<int, int, std::int32_t, std::uint32_t>;  // from, to, tag, comm

  // A receive from any rank learns its sender when it finishes.
  static void resolve_wildcards(Log& log) {
    std::unordered_map<std::uint64_t, LogEntry*> receives;
    for (LogEntry& entry : log) {
      if (entry.kind != OperationKind::receive) continue;
      if (!entry.finish) {
        receives[entry.count_id] = &entry;
      } else if (const auto start = receives.find(entry.count_id); start != receives.end()) {
        start->second->peer = entry.peer;
        start->second->tag = entry.tag;
      }
    }
  }

  // Returns false if the rank waits for a message that has not been sent yet.
  bool step(int index) {
    Rank& rank = ranks_[static_cast<std::size_t>(index)];
    const LogEntry& entry = logs_[static_cast<std::size_t>(index)][rank.next];
    if (entry.finish) {
      if (!finish(index, rank, entry.count_id)) return false;
    } else if (entry.kind == OperationKind::send) {
      rank.sends_until = std::max(rank.clock, rank.sends_until) + 1;
      rank.started[entry.count_id] = {&entry, rank.sends_until, 0};
      arrivals_[{index, entry.peer, entry.tag, entry.comm}].push_back(rank.sends_until);
    } else if (entry.kind == OperationKind::receive) {
      rank.started[entry.count_id] = {&entry, rank.clock,
                                      posted_[{entry.peer, index, entry.tag, entry.comm}]++};
    }  // a collective's messages are internal to MPI
    ++rank.next;
    return true;
  }

  bool finish(int index, Rank& rank, std::uint64_t id) {
    const auto found = rank.started.find(id);
    if (found == rank.started.end()) return true;  // started before the count
    const auto [entry, at, message] = found->second;
    std::uint64_t done = at;
    if (entry->kind == OperationKind::receive) {
      const auto& arrived = arrivals_[{entry->peer, index, entry->tag, entry->comm}];
      if (message >= arrived.size()) return false;
      done = std::max(std::max(rank.receives_until, at) + 1, arrived[message]);
      rank.receives_until = done;
    }
    rank.clock = std::max(rank.clock, done);
    rank.started.erase(found);
    return true;
  }

  std::vector<Log> logs_;
  std::vector<Rank> ranks_;
  std::map<Channel, std::vector<std::uint64_t>> arrivals_;
  std::map<Channel, std::uint64_t> posted_;
};

// Adds one rank's messages.
void add(const Log& log, Traffic& traffic) {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t collectives = 0;
  std::int64_t ahead = 0;  // messages sent minus messages received
  std::int64_t most_ahead = 0;
  std::set<std::uint64_t> open;  // sends and receives
  for (const LogEntry& entry : log) {
    if (entry.finish) {
      if (open.erase(entry.count_id) > 0 && entry.kind == OperationKind::receive) --ahead;
    } else if (entry.kind == OperationKind::collective) {
      ++collectives;
    } else {
      open.insert(entry.count_id);
      if (entry.kind != OperationKind::send) continue;
      ++messages;
      bytes += entry.bytes;
      most_ahead = std::max(most_ahead, ++ahead);
    }
  }
  traffic.messages += messages;
  traffic.messages_per_rank = std::max(traffic.messages_per_rank, messages);
  traffic.bytes_per_rank = std::max(traffic.bytes_per_rank, bytes);
  traffic.collectives = std::max(traffic.collectives, collectives);
  traffic.unfinished += open.size();
  traffic.most_ahead.push_back(static_cast<std::uint64_t>(most_ahead));
}

Traffic summary_of(std::vector<Log> logs) {
  Traffic traffic;
  for (const Log& log : logs) add(log, traffic);
  if (traffic.messages == 0) traffic.most_ahead.clear();
  std::set<int> peers;
  for (const LogEntry& entry : logs[0]) {
    if (entry.kind == OperationKind::send && !entry.finish) peers.insert(entry.peer);
  }
  traffic.peers.assign(peers.begin(), peers.end());
  traffic.rounds = Replay(std::move(logs)).run();
  return traffic;
}

// Gives all ranks the logs of all ranks, ordered by their ranks in `comm`.
int gather_logs(MPI_Comm comm, const Log& mine, std::vector<Log>& logs) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  const int bytes = static_cast<int>(mine.size() * sizeof(LogEntry));
  std::vector<int> lengths(static_cast<std::size_t>(size));
  int result = MPI_Allgather(&bytes, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm);
  if (result != MPI_SUCCESS) return result;
  std::vector<int> begins;
  int total = 0;
  for (const int length : lengths) begins.push_back(std::exchange(total, total + length));
  Log all(static_cast<std::size_t>(total) / sizeof(LogEntry));
  result = MPI_Allgatherv(mine.data(), bytes, MPI_BYTE, all.data(), lengths.data(),
                          begins.data(), MPI_BYTE, comm);
  auto begin = all.begin();
  for (const int length : lengths) {
    const auto end = begin + length / static_cast<int>(sizeof(LogEntry));
    logs.emplace_back(begin, end);
    begin = end;
  }
  return result;
}

}  // namespace

bool start_count(std::string_view subject) {
  LogOfThisRank& log = the_log();
  const std::lock_guard lock(log.mutex);
  if (std::exchange(log.on, true)) return false;
  log.entries.clear();
  count_only(subject);
  mode |= kTraffic;
  return true;
}

int end_count(MPI_Comm comm, Traffic* traffic) {
  mode &= ~unsigned{kTraffic};
  Log mine;
  {
    const std::lock_guard lock(the_log().mutex);
    the_log().on = false;
    mine.swap(the_log().entries);
  }
  if (traffic == nullptr) return MPI_SUCCESS;
  const std::vector<int>& ranks = info_of(comm).world_ranks;
  for (LogEntry& entry : mine) {  // from now on, a peer is a rank in `comm`
    const auto found = std::find(ranks.begin(), ranks.end(), entry.peer);
    if (entry.peer >= 0)
      entry.peer = found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
  }
  std::vector<Log> logs;
  const int result = gather_logs(comm, mine, logs);
  if (result == MPI_SUCCESS) *traffic = summary_of(std::move(logs));
  return result;
}

std::uint64_t count_start(const Operation& operation) {
  if (!is_on(kTraffic) || !is_counted()) return 0;
  return append(operation, /*finish=*/false);
}

void count_finish(const Operation& operation) {
  if (operation.count_id != 0 && is_on(kTraffic)) append(operation, /*finish=*/true);
}

}  // namespace dist::watch
