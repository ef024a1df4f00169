// One function that runs any of the broadcast algorithms; the caller chooses which.
#pragma once

#include "02_broadcast/binomial_tree.hpp"
#include "02_broadcast/flat.hpp"
#include "02_broadcast/more_algorithms/pipelined_chain.hpp"
#include "02_broadcast/more_algorithms/scatter_all_gather.hpp"
#include "common/names.hpp"

#include <span>
#include <string>

namespace dist {

enum class BroadcastAlgorithm { flat, tree, pipeline, scatter_all_gather, mpi };

// The names that --algorithm accepts.
inline const Names<BroadcastAlgorithm> kBroadcastAlgorithms{
    {"flat", BroadcastAlgorithm::flat},
    {"tree", BroadcastAlgorithm::tree},
    {"pipeline", BroadcastAlgorithm::pipeline},
    {"scatter-all-gather", BroadcastAlgorithm::scatter_all_gather},
    {"mpi", BroadcastAlgorithm::mpi}};

// MPI's own broadcast, which chooses an algorithm by message size and number of ranks.
template <MpiScalar T>
void broadcast_mpi(const Communicator& comm, std::span<T> data, int root) {
  MPI_CHECK(MPI_Bcast(data.data(), mpi_count(data.size()), mpi_type<T>(), root, comm.get()));
}

// Sends the root's `data` to all ranks. Called on all ranks with the same root, length,
// algorithm and `link` (see load_link_cost), which sets the pipeline's segment size. Returns
// when this rank's part is done, but others' may not be: a broadcast is not a barrier.
template <MpiScalar T>
void broadcast(const Communicator& comm, std::span<T> data, int root,
               BroadcastAlgorithm algorithm = BroadcastAlgorithm::tree,
               const LinkCost& link = {}) {
  switch (algorithm) {
    case BroadcastAlgorithm::flat: return broadcast_flat(comm, data, root);
    case BroadcastAlgorithm::tree: return broadcast_tree(comm, data, root);
    case BroadcastAlgorithm::pipeline:
      return broadcast_pipeline(comm, data, root,
                                best_segment_bytes(link, data.size_bytes(), comm.size()));
    case BroadcastAlgorithm::scatter_all_gather:
      return broadcast_scatter_all_gather(comm, data, root);
    case BroadcastAlgorithm::mpi: return broadcast_mpi(comm, data, root);
  }
}

}  // namespace dist
