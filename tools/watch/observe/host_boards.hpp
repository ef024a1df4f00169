// The boards of this host's ranks, in a shared-memory segment. The ranks find the segment
// without exchanging messages, so that the watch covers even MPI's start.
//
// The segment's name, a System V key, is computed from variables that the launcher sets to the
// same values on all ranks of a host. The name is removed as soon as all these ranks have
// attached the segment. If a rank never attaches it, the others remove the name when they exit,
// and a later job removes what killed ranks left behind. System V memory does not use /dev/shm,
// which may be tiny in a container.
#pragma once

#include "tools/watch/observe/rank_board.hpp"

#include <string>
#include <vector>

namespace dist::watch {

// The number in an environment variable, or in the other one if that is not set; 0 if neither
// is. Launchers name such variables differently.
int number_in(const char* name, const char* other = nullptr);

// What the ranks of a host share besides their boards.
struct HostRecord {
  Relaxed<std::uint64_t> mark;
  Relaxed<std::int32_t> present;   // ranks that have attached the segment
  Relaxed<std::int32_t> reporter;  // the rank that reports a hang, plus 1
};

struct HostBoards {
  // If no memory can be shared, `all` holds only this rank's own board. The boards exist until
  // the process ends, because threads may outlive MPI.
  explicit HostBoards(const std::string& trace_file);
  // After this, no process can attach the segment; its memory exists until the last rank exits.
  void remove_name() const;

  std::string trace;  // the trace's file; empty: none
  int segment = -1;
  HostRecord* host = nullptr;
  std::vector<RankBoard*> all;  // by local rank; the pid is 0 for a rank that has not started
  RankBoard* mine = nullptr;
  bool other_hosts = false;  // the job also has ranks on other hosts
};

}  // namespace dist::watch
