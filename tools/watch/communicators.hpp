// Gives each communicator an id that is the same on all its ranks, because MPI's handles are
// meaningless in a different process. Without exchanging messages, the ranks compute the id
// from the parent's id, the number of children that the parent had, and the communicator's
// first rank.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

namespace dist::watch {

struct CommunicatorInfo {
  std::uint32_t id = 0;          // 0: not known yet
  std::vector<int> world_ranks;  // by rank
  std::uint32_t children = 0;

  int world_rank(int rank) const;  // kAnyone and kNobody for MPI's special ranks
};

CommunicatorInfo& info_of(MPI_Comm comm);
// Converts a rank of the communicator with this id to its rank in MPI_COMM_WORLD.
int world_rank_in(std::uint32_t id, int rank);
// Called on all ranks of `parent`, in the same order. `child` may be MPI_COMM_NULL on this
// rank.
void register_child(MPI_Comm parent, MPI_Comm child);
void forget(MPI_Comm comm);

}  // namespace dist::watch
