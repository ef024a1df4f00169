// The messages of one rank in the order of its calls, while count_traffic runs.
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

// Starts with an empty log; false if one is being kept already.
bool start_log();
std::vector<LogEntry> stop_log();
// Appends; an entry without an id gets one, which is returned.
std::uint64_t append_to_log(LogEntry entry);

// Plays the ranks' logs against each other and returns the number of rounds (see
// common/watch.hpp). `logs` is indexed by rank in MPI_COMM_WORLD.
std::uint64_t count_rounds(std::vector<std::vector<LogEntry>> logs);

}  // namespace dist::watch
