// Look at: Replay, which counts rounds by giving every rank a clock that counts messages.
#include "tools/watch/traffic_log.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>

namespace dist::watch {
namespace {

struct LogOfThisRank {
  std::mutex mutex;
  bool on = false;
  std::uint64_t last_id = 0;
  std::vector<LogEntry> entries;
};

LogOfThisRank& the_log() {
  static auto* const log = new LogOfThisRank;
  return *log;
}

// Counts rounds. Every message takes one round of its sender's sending side and one round of
// its receiver's receiving side. A rank's clock tells in which round its next call begins:
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
  explicit Replay(std::vector<std::vector<LogEntry>> logs)
      : logs_(std::move(logs)), ranks_(logs_.size()) {
    for (std::size_t rank = 0; rank < logs_.size(); ++rank) resolve_wildcards(logs_[rank]);
  }

  std::uint64_t run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t rank = 0; rank < logs_.size(); ++rank) {
        while (ranks_[rank].next < logs_[rank].size() && step(rank)) moved = true;
      }
    }
    std::uint64_t last = 0;
    for (const Rank& rank : ranks_) last = std::max({last, rank.clock, rank.sends_until});
    return last;
  }

 private:
  struct Started {
    LogEntry entry;
    std::uint64_t at;       // for a receive, when it was posted; for a send, when it is done
    std::uint64_t message;  // for a receive, its message's number in the channel
  };
  using Channel = std::tuple<std::size_t, std::size_t, std::int32_t, std::uint32_t>;
  struct Rank {
    std::size_t next = 0;
    std::uint64_t clock = 0;
    std::uint64_t sends_until = 0;
    std::uint64_t receives_until = 0;
    std::unordered_map<std::uint64_t, Started> started;
  };

  // A receive from any rank learns its sender when it finishes.
  static void resolve_wildcards(std::vector<LogEntry>& log) {
    std::unordered_map<std::uint64_t, const LogEntry*> finishes;
    for (const LogEntry& entry : log) {
      if (entry.type == LogEntry::Type::finish) finishes[entry.id] = &entry;
    }
    for (LogEntry& entry : log) {
      const auto finish = finishes.find(entry.id);
      if (entry.type != LogEntry::Type::receive || finish == finishes.end()) continue;
      entry.peer = finish->second->peer;
      entry.tag = finish->second->tag;
    }
  }

  // Returns false if the rank waits for a message that has not been sent yet.
  bool step(std::size_t index) {
    Rank& rank = ranks_[index];
    const LogEntry& entry = logs_[index][rank.next];
    switch (entry.type) {
      case LogEntry::Type::send: {
        const std::uint64_t done = std::max(rank.clock, rank.sends_until) + 1;
        rank.sends_until = done;
        rank.started[entry.id] = {entry, done, 0};
        const auto peer = static_cast<std::size_t>(entry.peer);
        arrivals_[{index, peer, entry.tag, entry.comm}].push_back(done);
        break;
      }
      case LogEntry::Type::receive: {
        const auto peer = static_cast<std::size_t>(entry.peer);
        const std::uint64_t message = posted_[{peer, index, entry.tag, entry.comm}]++;
        rank.started[entry.id] = {entry, rank.clock, message};
        break;
      }
      case LogEntry::Type::finish:
        if (!finish(index, rank, entry.id)) return false;
        break;
      case LogEntry::Type::collective: break;  // its messages are internal to MPI
    }
    ++rank.next;
    return true;
  }

  bool finish(std::size_t index, Rank& rank, std::uint64_t id) {
    const auto found = rank.started.find(id);
    if (found == rank.started.end()) return true;  // started before the count
    const Started& started = found->second;
    std::uint64_t done = started.at;
    if (started.entry.type == LogEntry::Type::receive) {
      const auto peer = static_cast<std::size_t>(started.entry.peer);
      const auto& arrived = arrivals_[{peer, index, started.entry.tag, started.entry.comm}];
      if (started.message >= arrived.size()) return false;
      done = std::max(std::max(rank.receives_until, started.at) + 1, arrived[started.message]);
      rank.receives_until = done;
    }
    rank.clock = std::max(rank.clock, done);
    rank.started.erase(found);
    return true;
  }

  std::vector<std::vector<LogEntry>> logs_;
  std::vector<Rank> ranks_;
  std::map<Channel, std::vector<std::uint64_t>> arrivals_;
  std::map<Channel, std::uint64_t> posted_;
};

}  // namespace

bool start_log() {
  LogOfThisRank& log = the_log();
  const std::lock_guard lock(log.mutex);
  if (log.on) return false;
  log.on = true;
  log.entries.clear();
  return true;
}

std::vector<LogEntry> stop_log() {
  LogOfThisRank& log = the_log();
  const std::lock_guard lock(log.mutex);
  log.on = false;
  return std::move(log.entries);
}

std::uint64_t append_to_log(LogEntry entry) {
  LogOfThisRank& log = the_log();
  const std::lock_guard lock(log.mutex);
  if (!log.on) return 0;
  if (entry.id == 0) entry.id = ++log.last_id;
  log.entries.push_back(entry);
  return entry.id;
}

std::uint64_t count_rounds(std::vector<std::vector<LogEntry>> logs) {
  return Replay(std::move(logs)).run();
}

}  // namespace dist::watch
