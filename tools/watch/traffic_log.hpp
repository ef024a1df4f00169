// Logs one rank's messages in the order of its calls while count_traffic is running.
#pragma once

#include <cstdint>
#include <vector>

namespace dist::watch {

struct LogEntry {
  enum class Type : std::uint32_t { send, receive, finish, collective };
  Type type;
  std::uint32_t comm;
  std::int32_t peer;  // in MPI_COMM_WORLD
  std::int32_t tag;
  std::uint64_t bytes;
  std::uint64_t id;  // of the operation that starts or finishes
};

// Starts an empty log. Returns false if a log already exists.
bool start_log();
std::vector<LogEntry> stop_log();
// Appends an entry and returns its id. An entry with id 0 gets a new id.
std::uint64_t append_to_log(LogEntry entry);

// Replays the ranks' logs together and returns the number of rounds (common/watch.hpp). `logs`
// is indexed by rank.
std::uint64_t count_rounds(std::vector<std::vector<LogEntry>> logs);

}  // namespace dist::watch
