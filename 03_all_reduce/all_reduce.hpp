// One function that runs any of the lesson's algorithms.
#pragma once

#include "03_all_reduce/more_algorithms/pipelined_ring.hpp"
#include "03_all_reduce/more_algorithms/rabenseifner.hpp"
#include "03_all_reduce/more_algorithms/recursive_doubling.hpp"
#include "03_all_reduce/naive.hpp"
#include "03_all_reduce/ring.hpp"

#include <span>

namespace dist {

// MPI's own all-reduce, which chooses among similar algorithms by size and number of ranks.
template <MpiScalar T>
void all_reduce_mpi(const Communicator& comm, std::span<T> data, ReduceOp op) {
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, data.data(), mpi_count(data.size()), mpi_type<T>(),
                          op == ReduceOp::max ? MPI_MAX : MPI_SUM, comm.get()));
  finish(op, data, comm.size());
}

// [6] Called on all ranks with the same length, op and algorithm. Returns on each rank once
// that rank's `data` holds the result, which is equal on all ranks. Throws Error, on all ranks
// and before any message, for the average of whole numbers and for algorithms that need an
// AllReducer (choice/all_reducer.hpp): shared-memory and hierarchical need memory allocated
// in advance, and auto needs a plan that all ranks share. If each rank chose an algorithm on
// its own, ranks could choose differently and wait for each other forever.
//
// The default is recursive doubling: it sends the fewest messages, which suits a few numbers.
template <MpiScalar T>
void all_reduce(const Communicator& comm, std::span<T> data, ReduceOp op,
                AllReduceAlgorithm algorithm = AllReduceAlgorithm::recursive_doubling) {
  check_op<T>(op);
  switch (algorithm) {
    case AllReduceAlgorithm::naive: return all_reduce_naive(comm, data, op);
    case AllReduceAlgorithm::recursive_doubling:
      return all_reduce_recursive_doubling(comm, data, op);
    case AllReduceAlgorithm::ring: return all_reduce_ring(comm, data, op);
    case AllReduceAlgorithm::mpi: return all_reduce_mpi(comm, data, op);
    case AllReduceAlgorithm::ring_pipelined: return all_reduce_pipelined_ring(comm, data, op);
    case AllReduceAlgorithm::rabenseifner: return all_reduce_rabenseifner(comm, data, op);
    case AllReduceAlgorithm::shared_memory:
    case AllReduceAlgorithm::hierarchical:
      throw Error(to_string(algorithm) +
                  " needs memory that all ranks allocate together: use an AllReducer");
    case AllReduceAlgorithm::automatic:
      throw Error("auto needs a plan that all ranks share: use an AllReducer");
  }
}

}  // namespace dist
