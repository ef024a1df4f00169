// MPI's own halves of an all-reduce: a reduce-scatter and an all-gather of the ring's chunks.
#pragma once

#include "02_broadcast/chunks.hpp"
#include "03_all_reduce/reduce_op.hpp"
#include "common/communicator.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

namespace dist {

// How MPI describes the chunks of our ring.
struct MpiChunks {
  std::vector<int> counts, begins;

  MpiChunks(std::size_t count, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      const ChunkRange chunk = chunk_range(count, ranks, rank);
      counts.push_back(mpi_count(chunk.count));
      begins.push_back(mpi_count(chunk.begin));
    }
  }
};

// MPI's own reduce-scatter and all-gather, in place. Called on all ranks with the same length.
inline void reduce_scatter_mpi(const Communicator& comm, std::span<float> data, ReduceOp op) {
  const MpiChunks chunks(data.size(), comm.size());
  MPI_CHECK(MPI_Reduce_scatter(MPI_IN_PLACE, data.data(), chunks.counts.data(), MPI_FLOAT,
                               op == ReduceOp::max ? MPI_MAX : MPI_SUM, comm.get()));
  // MPI puts the result of this rank's chunk at the beginning. Move it to its place.
  const auto mine = window(data, chunk_range(data.size(), comm.size(), comm.rank()));
  std::copy_backward(data.begin(), data.begin() + std::ssize(mine), mine.end());
  finish(op, mine, comm.size());
}

inline void all_gather_mpi(const Communicator& comm, std::span<float> data) {
  const MpiChunks chunks(data.size(), comm.size());
  MPI_CHECK(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data.data(),
                           chunks.counts.data(), chunks.begins.data(), MPI_FLOAT, comm.get()));
}

}  // namespace dist
