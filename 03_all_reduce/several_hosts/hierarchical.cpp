#include "03_all_reduce/several_hosts/hierarchical.hpp"

#include "common/check.hpp"

#include <mpi.h>

#include <utility>

namespace dist {
namespace {

int smallest_host(const Communicator& comm, int ranks_here) {
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &ranks_here, 1, MPI_INT, MPI_MIN, comm.get()));
  return ranks_here;
}

}  // namespace

Communicator ranks_on_this_host(const Communicator& comm) {
  // The host's first rank, in `comm`, identifies the host.
  int first = comm.rank();
  MPI_Comm host = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_split_type(comm.get(), MPI_COMM_TYPE_SHARED, first, MPI_INFO_NULL, &host));
  MPI_CHECK(MPI_Bcast(&first, 1, MPI_INT, 0, host));
  MPI_CHECK(MPI_Comm_free(&host));
  return comm.split(first, comm.rank());
}

int count_hosts(const Communicator& comm) {
  int hosts = comm.local_rank() == 0 ? 1 : 0;
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &hosts, 1, MPI_INT, MPI_SUM, comm.get()));
  return hosts;
}

HierarchicalAllReduce::HierarchicalAllReduce(const Communicator& comm, const Communicator& host,
                                             SharedMemoryAllReduce& memory,
                                             std::shared_ptr<std::byte> staging)
    : ranks_(comm.size()),
      place_(host.rank()),
      parts_(smallest_host(comm, host.size())),
      memory_(memory),
      staging_(std::move(staging)),
      across_(comm.split(std::min(place_, parts_), comm.rank())) {}

}  // namespace dist
