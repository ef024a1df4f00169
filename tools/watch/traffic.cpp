#include "tools/watch/traffic.hpp"

#include "tools/watch/communicators.hpp"
#include "tools/watch/observation.hpp"
#include "tools/watch/scopes.hpp"
#include "tools/watch/traffic_log.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace dist::watch {
namespace {

using Log = std::vector<LogEntry>;

std::uint64_t count(const Log& log, LogEntry::Type type) {
  return static_cast<std::uint64_t>(std::count_if(
      log.begin(), log.end(), [type](const LogEntry& entry) { return entry.type == type; }));
}

// How many of the sends and receives in the log do not finish within the log.
std::uint64_t unfinished(const Log& log) {
  std::set<std::uint64_t> open;
  for (const LogEntry& entry : log) {
    if (entry.type == LogEntry::Type::finish) {
      open.erase(entry.id);
    } else if (entry.type != LogEntry::Type::collective) {
      open.insert(entry.id);
    }
  }
  return open.size();
}

// The largest excess, at any time, of messages sent over messages received.
std::uint64_t most_ahead(const Log& log) {
  std::set<std::uint64_t> receives;
  std::int64_t ahead = 0;
  std::int64_t most = 0;
  for (const LogEntry& entry : log) {
    if (entry.type == LogEntry::Type::receive) receives.insert(entry.id);
    if (entry.type == LogEntry::Type::finish && receives.erase(entry.id) > 0) --ahead;
    if (entry.type == LogEntry::Type::send) most = std::max(most, ++ahead);
  }
  return static_cast<std::uint64_t>(most);
}

// Gives all ranks the logs of all ranks, ordered by their ranks in `comm`.
int gather_logs(MPI_Comm comm, const Log& mine, std::vector<Log>& logs) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  const auto ranks = static_cast<std::size_t>(size);
  const int bytes = static_cast<int>(mine.size() * sizeof(LogEntry));
  std::vector<int> lengths(ranks);
  int result = MPI_Allgather(&bytes, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm);
  if (result != MPI_SUCCESS) return result;
  std::vector<int> begins(ranks);
  int total = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    begins[rank] = total;
    total += lengths[rank];
  }
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

Traffic summary_of(std::vector<Log> logs) {
  Traffic traffic;
  for (const Log& log : logs) {
    std::uint64_t bytes = 0;
    for (const LogEntry& entry : log) {
      if (entry.type == LogEntry::Type::send) bytes += entry.bytes;
    }
    const std::uint64_t messages = count(log, LogEntry::Type::send);
    traffic.messages += messages;
    traffic.messages_per_rank = std::max(traffic.messages_per_rank, messages);
    traffic.bytes_per_rank = std::max(traffic.bytes_per_rank, bytes);
    traffic.collectives = std::max(traffic.collectives, count(log, LogEntry::Type::collective));
    traffic.unfinished += unfinished(log);
    traffic.most_ahead.push_back(most_ahead(log));
  }
  if (traffic.messages == 0) traffic.most_ahead.clear();
  std::set<int> peers;
  for (const LogEntry& entry : logs[0]) {
    if (entry.type == LogEntry::Type::send) peers.insert(entry.peer);
  }
  traffic.peers.assign(peers.begin(), peers.end());
  traffic.rounds = count_rounds(std::move(logs));
  return traffic;
}

}  // namespace

bool start_count(std::string_view subject) {
  if (!start_log()) return false;
  count_only(subject);
  mode |= kTraffic;
  return true;
}

int end_count(MPI_Comm comm, Traffic* traffic) {
  mode &= ~unsigned{kTraffic};
  Log mine = stop_log();
  if (traffic == nullptr) return MPI_SUCCESS;
  // Replace ranks in MPI_COMM_WORLD with ranks in `comm`.
  const CommunicatorInfo& info = info_of(comm);
  for (LogEntry& entry : mine) {
    if (entry.peer >= 0) entry.peer = info.rank_of(entry.peer);
  }
  std::vector<Log> logs;
  const int result = gather_logs(comm, mine, logs);
  if (result == MPI_SUCCESS) *traffic = summary_of(std::move(logs));
  return result;
}

}  // namespace dist::watch
