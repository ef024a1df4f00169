// Communicators as all their ranks know them. MPI's handles mean nothing in another process, so
// each communicator gets an id that its ranks compute alike, without a message: from its
// parent's id, how many children the parent had, and its first rank.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace dist::watch {

struct CommunicatorInfo {
  std::uint32_t id = 0;
  std::vector<int> world_ranks;  // by rank
  std::atomic<std::uint32_t> children{0};

  int world_rank(int rank) const;     // kAnyone and kNobody for MPI's special ranks
  int rank_of(int world_rank) const;  // -1: not in it
};

// The info lives until the communicator is freed.
CommunicatorInfo& info_of(MPI_Comm comm);
// The rank in MPI_COMM_WORLD of `rank` in the communicator with this id.
int world_rank_in(std::uint32_t id, int rank);
// Called on all ranks of `parent`, in the same order; `child` may be MPI_COMM_NULL here.
void register_child(MPI_Comm parent, MPI_Comm child);
void forget(MPI_Comm comm);
// Tells a new board which communicators this rank is a member of.
void note_communicators();

}  // namespace dist::watch
