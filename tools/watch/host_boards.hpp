// The boards of this host's ranks, in shared memory that they find without a message, so that
// even MPI's start is watched.
//
// The segment's name is made from what the launcher gives all ranks of a host alike. It is gone
// as soon as all of them have mapped it. If one never comes, the others remove it when they
// leave; and what killed ranks have left behind, a later job removes.
#pragma once

#include "tools/watch/board.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace dist::watch {

// This process in its job, as the launcher says: before MPI_Init nobody else knows.
struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string job;  // one job on one host; empty: started without a launcher
};
Place place_of_this_process();

// What the ranks of a host have together.
struct HostRecord {
  Relaxed<std::int32_t> present;   // ranks that have mapped the segment
  Relaxed<std::int32_t> reporter;  // who reports a hang, + 1
};

class HostBoards {
 public:
  // Where no memory can be shared, this rank has only its own board, and `all` no others.
  HostBoards(const Place& place, bool trace);
  ~HostBoards();
  HostBoards(const HostBoards&) = delete;
  HostBoards& operator=(const HostBoards&) = delete;

  // By local rank. A rank that has not started yet has the pid 0.
  const std::vector<RankBoard*>& all() const { return all_; }
  RankBoard& mine() const { return *mine_; }
  HostRecord& host() const { return *host_; }
  // For a process that leaves without a destructor: the name goes, the memory stays.
  void remove_name();

 private:
  bool map_shared(std::size_t own_offset, std::size_t own_bytes);
  void map_private();

  std::string name_;  // empty: never shared
  std::size_t bytes_ = 0;
  void* memory_ = nullptr;
  int file_ = -1;
  std::vector<RankBoard*> all_;
  RankBoard* mine_ = nullptr;
  HostRecord* host_ = nullptr;
};

}  // namespace dist::watch
