// MPI's own reduce-scatter and all-gather, in place and with the chunks of our ring.
#pragma once

#include "02_broadcast/chunks.hpp"
#include "03_all_reduce/reduce_op.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace dist {

// How MPI describes the chunks of `count` elements.
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

// MPI puts the result of this rank's chunk at the beginning; this moves it to its place.
template <MpiScalar T>
void place_chunk(const Communicator& comm, std::span<T> data, ReduceOp op) {
  const std::span<T> mine = window(data, chunk_range(data.size(), comm.size(), comm.rank()));
  std::copy_backward(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(mine.size()),
                     mine.end());
  finish(op, mine, comm.size());
}

// Both are called on all ranks with the same length.
template <MpiScalar T>
void reduce_scatter_mpi(const Communicator& comm, std::span<T> data, ReduceOp op) {
  const MpiChunks chunks(data.size(), comm.size());
  MPI_CHECK(MPI_Reduce_scatter(MPI_IN_PLACE, data.data(), chunks.counts.data(), mpi_type<T>(),
                               op == ReduceOp::max ? MPI_MAX : MPI_SUM, comm.get()));
  place_chunk(comm, data, op);
}

template <MpiScalar T>
void all_gather_mpi(const Communicator& comm, std::span<T> data) {
  const MpiChunks chunks(data.size(), comm.size());
  MPI_CHECK(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data.data(),
                           chunks.counts.data(), chunks.begins.data(), mpi_type<T>(),
                           comm.get()));
}

}  // namespace dist
