#include "common/check.hpp"
#include "common/watch.hpp"
#include "tools/watch/communicators.hpp"
#include "tools/watch/spy.hpp"
#include "tools/watch/traffic_log.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <set>

namespace dist {
namespace {

using diagnostics::LogEntry;

std::uint64_t count(const std::vector<LogEntry>& log, LogEntry::Type type) {
  return static_cast<std::uint64_t>(std::count_if(
      log.begin(), log.end(), [type](const LogEntry& entry) { return entry.type == type; }));
}

// How many of the log's sends and receives have no end in it.
std::uint64_t unfinished(const std::vector<LogEntry>& log) {
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

// Each rank's log, by rank of `comm`, on all ranks.
std::vector<std::vector<LogEntry>> gather_logs(const Communicator& comm,
                                               const std::vector<LogEntry>& mine) {
  const auto size = static_cast<std::size_t>(comm.size());
  const int bytes = mpi_count(mine.size() * sizeof(LogEntry));
  std::vector<int> lengths(size);
  MPI_CHECK(MPI_Allgather(&bytes, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm.get()));
  std::vector<int> begins(size);
  std::size_t total = 0;
  for (std::size_t rank = 0; rank < size; ++rank) {
    begins[rank] = mpi_count(total);
    total += static_cast<std::size_t>(lengths[rank]);
  }
  std::vector<LogEntry> all(mpi_count(total) / sizeof(LogEntry));
  MPI_CHECK(MPI_Allgatherv(mine.data(), bytes, MPI_BYTE, all.data(), lengths.data(),
                           begins.data(), MPI_BYTE, comm.get()));
  std::vector<std::vector<LogEntry>> logs;
  auto begin = all.begin();
  for (const int length : lengths) {
    const auto end = begin + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(length) /
                                                         sizeof(LogEntry));
    logs.emplace_back(begin, end);
    begin = end;
  }
  return logs;
}

// The log is switched off whatever way the body ends.
class Recording {
 public:
  Recording() {
    diagnostics::start_log();
    diagnostics::mode.fetch_or(diagnostics::kTraffic);
  }
  ~Recording() { stop(); }
  std::vector<LogEntry> stop() {
    diagnostics::mode.fetch_and(~unsigned{diagnostics::kTraffic});
    return diagnostics::stop_log();
  }
};

}  // namespace

Traffic count_traffic(const Communicator& comm, const std::function<void()>& body) {
  std::vector<LogEntry> mine;
  {
    Recording recording;
    body();
    mine = recording.stop();
  }
  // Ranks as `comm` counts them.
  const diagnostics::CommunicatorInfo& info = diagnostics::info_of(comm.get());
  for (LogEntry& entry : mine) {
    if (entry.peer >= 0) entry.peer = info.rank_of(entry.peer);
  }
  std::vector<std::vector<LogEntry>> logs = gather_logs(comm, mine);
  Traffic traffic;
  for (const auto& log : logs) {
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
  }
  std::set<int> peers;
  for (const LogEntry& entry : logs[0]) {
    if (entry.type == LogEntry::Type::send) peers.insert(entry.peer);
  }
  traffic.peers.assign(peers.begin(), peers.end());
  traffic.rounds = diagnostics::count_rounds(std::move(logs));
  return traffic;
}

}  // namespace dist
