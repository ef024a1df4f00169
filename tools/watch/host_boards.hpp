// The boards of this host's ranks, in shared memory that they find without a message, so that
// even MPI's start is watched.
//
// The segment's name, a System V key, is made from what the launcher gives all ranks of a host
// alike. It is gone as soon as all of them have attached it. If one never comes, the others
// remove it when they leave; and what killed ranks have left behind, a later job removes. Such
// memory is not taken from /dev/shm, of which a container may have next to nothing.
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
  Relaxed<std::uint64_t> mark;
  Relaxed<std::int32_t> present;   // ranks that have attached the segment
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
  // Nobody attaches it any more; the memory stays until the last rank leaves.
  void remove_name();

 private:
  bool map_shared(const std::string& layout);
  void map_private();

  int segment_ = -1;
  std::size_t bytes_ = 0;
  void* memory_ = nullptr;
  std::vector<RankBoard*> all_;
  RankBoard* mine_ = nullptr;
  HostRecord* host_ = nullptr;
};

}  // namespace dist::watch
