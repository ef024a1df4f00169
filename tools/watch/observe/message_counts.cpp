// While a count is running, each rank logs its messages in the order of its calls. At the end,
// all ranks get all logs, and each computes the same result from them.
// Look at: Replay, which counts rounds by giving every rank a clock that counts messages.
#include "tools/watch/observe/call_hooks.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace dist::watch {
namespace {

// The start of a send, receive or collective, or the end of one.
struct LogEntry : Operation {
  std::int64_t start = -1;   // of an end: the place of its start in the log
  bool from_anyone = false;  // of the start of a receive: from whichever rank sends first
};
using Log = std::vector<LogEntry>;

struct LogOfThisRank {
  std::mutex mutex;
  bool on = false;
  std::uint64_t first_id = 1;  // the count_id of the entry at place 0
  Log entries;
};
LogOfThisRank& the_log = *new LogOfThisRank;  // threads may outlive static objects

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
  explicit Replay(const std::vector<Log>& logs) {
    for (const Log& log : logs) {
      ranks_.push_back(
          {static_cast<int>(ranks_.size()), log, std::vector<Started>(log.size())});
    }
  }

  std::uint64_t run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank& rank : ranks_) {
        while (rank.next < rank.log.size() && step(rank)) moved = true;
      }
    }
    std::uint64_t last = 0;
    for (const Rank& rank : ranks_) last = std::max({last, rank.clock, rank.sends_until});
    return last;
  }
  const std::vector<Traffic::Message>& sent() const { return sent_; }  // after run()

 private:
  struct Started {
    std::uint64_t at = 0;  // for a receive, when it was posted; for a send, when it is done
    std::uint64_t message = 0;  // for a receive, its message's number in the channel
  };
  struct Rank {
    int number;
    const Log& log;
    std::vector<Started> started;  // by place in the log
    std::size_t next = 0;          // place in the log
    std::uint64_t clock = 0;
    std::uint64_t sends_until = 0;
    std::uint64_t receives_until = 0;
  };
  using Channel = std::tuple<int, int, std::int32_t, std::uint32_t>;  // from, to, tag, comm

  // Returns false if the rank waits for a message that has not been sent yet.
  bool step(Rank& rank) {
    const LogEntry& entry = rank.log[rank.next];
    if (entry.start >= 0) {
      if (!finish(rank, static_cast<std::size_t>(entry.start))) return false;
    } else if (entry.kind == OperationKind::send) {
      rank.sends_until = std::max(rank.clock, rank.sends_until) + 1;
      rank.started[rank.next] = {rank.sends_until};
      arrivals_[{rank.number, entry.peer, entry.tag, entry.comm}].push_back(rank.sends_until);
      sent_.push_back({rank.number, entry.peer, rank.sends_until});
    } else if (entry.kind == OperationKind::receive) {
      const Channel channel{entry.peer, rank.number, entry.tag, entry.comm};
      rank.started[rank.next] = {rank.clock, posted_[channel]++};
    }  // a collective's messages are internal to MPI
    ++rank.next;
    return true;
  }

  bool finish(Rank& rank, std::size_t start) {
    const LogEntry& entry = rank.log[start];
    auto [done, message] = rank.started[start];
    if (entry.kind == OperationKind::receive) {
      const auto& arrived = arrivals_[{entry.peer, rank.number, entry.tag, entry.comm}];
      if (message >= arrived.size()) return false;
      done = std::max(std::max(rank.receives_until, done) + 1, arrived[message]);
      rank.receives_until = done;
    }
    rank.clock = std::max(rank.clock, done);
    return true;
  }

  std::vector<Rank> ranks_;
  std::vector<Traffic::Message> sent_;
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
  for (const LogEntry& entry : log) {
    const bool starts = entry.start < 0;
    if (entry.kind == OperationKind::collective) {
      collectives += starts ? 1 : 0;
      continue;
    }
    starts ? ++traffic.unfinished : --traffic.unfinished;
    if (entry.kind == OperationKind::receive) {
      if (starts && entry.from_anyone) ++traffic.from_anyone;
      ahead -= starts ? 0 : 1;
    } else if (starts) {
      ++messages;
      bytes += entry.bytes;
      most_ahead = std::max(most_ahead, ++ahead);
    }
  }
  traffic.messages += messages;
  traffic.messages_per_rank = std::max(traffic.messages_per_rank, messages);
  traffic.bytes_per_rank = std::max(traffic.bytes_per_rank, bytes);
  traffic.collectives = std::max(traffic.collectives, collectives);
  traffic.most_ahead.push_back(static_cast<std::uint64_t>(most_ahead));
}

Traffic summary_of(const std::vector<Log>& logs) {
  Traffic traffic;
  for (const Log& log : logs) add(log, traffic);
  if (traffic.messages == 0) traffic.most_ahead.clear();
  std::set<int> peers;
  for (const LogEntry& entry : logs[0]) {
    if (entry.kind == OperationKind::send) peers.insert(entry.peer);
  }
  traffic.peers.assign(peers.begin(), peers.end());
  Replay replay(logs);
  traffic.rounds = replay.run();
  traffic.sent = replay.sent();
  return traffic;
}

// Gives all ranks the logs of all ranks, ordered by their ranks in `comm`.
int gather_logs(MPI_Comm comm, const Log& mine, std::vector<Log>& logs) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  logs.resize(static_cast<std::size_t>(size));
  std::vector<int> begins(logs.size());
  std::vector<int> lengths(logs.size());
  const auto length = static_cast<int>(mine.size());
  int result = MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm);
  if (result != MPI_SUCCESS) return result;
  std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), 0);
  Log all(static_cast<std::size_t>(begins.back() + lengths.back()));
  MPI_Datatype entry = MPI_DATATYPE_NULL;
  PMPI_Type_contiguous(sizeof(LogEntry), MPI_BYTE, &entry);
  PMPI_Type_commit(&entry);
  result = MPI_Allgatherv(mine.data(), length, entry, all.data(), lengths.data(), begins.data(),
                          entry, comm);
  PMPI_Type_free(&entry);
  for (std::size_t rank = 0; rank < logs.size(); ++rank) {
    const auto begin = all.begin() + begins[rank];
    logs[rank].assign(begin, begin + lengths[rank]);
  }
  return result;
}

}  // namespace

bool start_count(std::string_view subject) {
  const std::lock_guard lock(the_log.mutex);
  if (std::exchange(the_log.on, true)) return false;
  counted_subject = subject;
  mode |= kTraffic;
  return true;
}

int end_count(MPI_Comm comm, Traffic* traffic) {
  mode &= ~unsigned{kTraffic};
  Log mine;
  {
    const std::lock_guard lock(the_log.mutex);
    the_log.on = false;
    the_log.first_id += the_log.entries.size();
    mine.swap(the_log.entries);
  }
  if (traffic == nullptr) return MPI_SUCCESS;
  const std::vector<int>& ranks = info_of(comm).world_ranks;
  for (LogEntry& entry : mine) {  // from now on, a peer is a rank in `comm`
    const auto found = std::ranges::find(ranks, std::int32_t{entry.peer});
    entry.peer = found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
  }
  std::vector<Log> logs;
  const int result = gather_logs(comm, mine, logs);
  if (result == MPI_SUCCESS) *traffic = summary_of(logs);
  return result;
}

std::uint64_t count_start(const Operation& operation) {
  if (!is_on(kTraffic) || !(counted_subject.empty() || in_counted_scope)) return 0;
  const std::lock_guard lock(the_log.mutex);
  if (!the_log.on) return 0;
  the_log.entries.push_back({operation});
  the_log.entries.back().from_anyone =
      operation.kind == OperationKind::receive && operation.peer == kAnyone;
  return the_log.first_id + the_log.entries.size() - 1;
}

void count_finish(const Operation& operation) {
  if (operation.count_id == 0 || !is_on(kTraffic)) return;
  const std::lock_guard lock(the_log.mutex);
  if (!the_log.on || operation.count_id < the_log.first_id) return;  // started before the count
  const std::uint64_t start = operation.count_id - the_log.first_id;
  // A receive from any rank has learnt its sender.
  static_cast<Operation&>(the_log.entries[start]) = operation;
  the_log.entries.push_back({operation, static_cast<std::int64_t>(start)});
}

}  // namespace dist::watch
