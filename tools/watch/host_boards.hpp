// The boards of this host's ranks, in a shared-memory segment. The ranks find the segment
// without exchanging messages, so that the watch covers even MPI's start.
//
// The segment's name, a System V key, is computed from variables that the launcher sets to the
// same values on all ranks of a host. The name is removed as soon as all these ranks have
// attached the segment. If a rank never attaches it, the others remove the name when they exit,
// and a later job removes what killed ranks left behind. System V memory does not use /dev/shm,
// which may be tiny in a container.
#pragma once

#include "tools/watch/rank_board.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace dist::watch {

// This process's place in its job. The launcher provides it, because MPI cannot before
// MPI_Init.
struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string job;  // identifies the job on this host; empty without a launcher
};
Place place_of_this_process();

// What the ranks of a host share besides their boards.
struct HostRecord {
  Relaxed<std::uint64_t> mark;
  Relaxed<std::int32_t> present;   // ranks that have attached the segment
  Relaxed<std::int32_t> reporter;  // the rank that reports a hang, plus 1
};

class HostBoards {
 public:
  // If no memory can be shared, `all` holds only this rank's own board.
  HostBoards(const Place& place, bool trace);
  ~HostBoards();
  HostBoards(const HostBoards&) = delete;
  HostBoards& operator=(const HostBoards&) = delete;

  // Indexed by local rank. The pid is 0 for a rank that has not started yet.
  const std::vector<RankBoard*>& all() const { return all_; }
  RankBoard& mine() const { return *mine_; }
  HostRecord& host() const { return *static_cast<HostRecord*>(memory_); }
  // After this, no process can attach the segment; its memory exists until the last rank exits.
  void remove_name();

 private:
  bool attach_shared(const std::string& name);

  int segment_ = -1;
  std::size_t bytes_ = 0;
  void* memory_ = nullptr;
  std::vector<RankBoard*> all_;
  RankBoard* mine_ = nullptr;
};

}  // namespace dist::watch
