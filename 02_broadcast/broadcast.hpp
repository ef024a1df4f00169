// One name for all broadcasts, so that a caller can choose.
#pragma once

#include "02_broadcast/binomial_tree.hpp"
#include "02_broadcast/flat.hpp"
#include "02_broadcast/pipelined_chain.hpp"

#include <bit>
#include <span>

namespace dist {

enum class BroadcastAlgorithm { flat, tree, pipeline, mpi };

// MPI's own, which chooses among such algorithms by size and number of ranks.
template <MpiScalar T>
void broadcast_mpi(const Communicator& comm, std::span<T> data, int root) {
  MPI_CHECK(MPI_Bcast(data.data(), mpi_count(data.size()), mpi_type<T>(), root, comm.get()));
}

// Root's `data` to all ranks. Called on all ranks with the same root, length and algorithm;
// returns on a rank when that rank has the data, which says nothing about the others: a
// broadcast is no barrier.
template <MpiScalar T>
void broadcast(const Communicator& comm, std::span<T> data, int root,
               BroadcastAlgorithm algorithm = BroadcastAlgorithm::tree) {
  switch (algorithm) {
    case BroadcastAlgorithm::flat: return broadcast_flat(comm, data, root);
    case BroadcastAlgorithm::tree: return broadcast_tree(comm, data, root);
    case BroadcastAlgorithm::pipeline: return broadcast_pipeline(comm, data, root);
    case BroadcastAlgorithm::mpi: return broadcast_mpi(comm, data, root);
  }
}

// Messages that follow each other on the longest path, by each algorithm's formula; -1 for
// MPI's own, which does not tell.
inline int broadcast_rounds(BroadcastAlgorithm algorithm, std::size_t bytes, int size) {
  if (size < 2) return 0;
  switch (algorithm) {
    case BroadcastAlgorithm::flat: return size - 1;
    case BroadcastAlgorithm::tree: return std::bit_width(static_cast<unsigned>(size - 1));
    case BroadcastAlgorithm::pipeline: return static_cast<int>(segments_of(bytes)) + size - 2;
    case BroadcastAlgorithm::mpi: return -1;
  }
  return -1;
}

}  // namespace dist
