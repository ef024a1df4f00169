// Known solutions of the exercise ring_all_reduce: the reference, and others, right and wrong.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "common/check.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace dist::exercise {

// == reference | done
// Both halves in one function, which needs no other file. Yours may call its two halves: see
// "Compare with ours" in the lesson.
inline void ring_all_reduce_reference(const Communicator& comm, std::span<float> data) {
  const int size = comm.size();
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), size, index));
  };
  for (int step = 0; step < size - 1; ++step) {  // reduce-scatter
    const std::span<float> out = chunk(comm.rank() - 1 - step);
    const std::span<float> in = chunk(comm.rank() - 2 - step);
    std::vector<float> spare(in.size());
    send_recv<float>(comm, out, comm.right(), spare, comm.left());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += spare[i];
  }
  for (float& value : chunk(comm.rank())) value *= 1.0F / static_cast<float>(size);
  for (int step = 0; step < size - 1; ++step) {  // all-gather
    const std::span<float> out = chunk(comm.rank() - step);
    const std::span<float> in = chunk(comm.rank() - 1 - step);
    send_recv<float>(comm, out, comm.right(), in, comm.left());
  }
}

// == divides | bits | dividing by N
// Divides the sum by N instead of multiplying it by 1 / N.
inline void ring_all_reduce_divides(const Communicator& comm, std::span<float> data) {
  all_reduce_ring<float>(comm, data, ReduceOp::sum);
  for (float& value : data) value /= static_cast<float>(comm.size());
}

// == no-division | shares | copies each number
// Leaves the sum undivided.
inline void ring_all_reduce_no_division(const Communicator& comm, std::span<float> data) {
  all_reduce_ring<float>(comm, data, ReduceOp::sum);
}

// == mpi | messages | leave it out
// Calls MPI_Allreduce.
inline void ring_all_reduce_mpi(const Communicator& comm, std::span<float> data) {
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, data.data(), mpi_count(data.size()), MPI_FLOAT, MPI_SUM,
                          comm.get()));
  for (float& value : data) value /= static_cast<float>(comm.size());
}

// == copies-padding | guard-zones | write only to its place
// Pads the data until N divides its length, and copies the padding back with it.
inline void ring_all_reduce_copies_padding(const Communicator& comm, std::span<float> data) {
  const auto n = static_cast<std::size_t>(comm.size());
  std::vector<float> padded(data.begin(), data.end());
  padded.resize((data.size() + n - 1) / n * n);
  all_reduce_ring<float>(comm, padded, ReduceOp::avg);
  std::ranges::copy(padded, data.data());
}

// == scales-equal-chunks | values | the first chunks have one element more
// Computes with length / N when it multiplies its own chunk by 1 / N.
inline void ring_all_reduce_scales_equal_chunks(const Communicator& comm,
                                                std::span<float> data) {
  dist::ring_reduce_scatter<float>(comm, data, ReduceOp::sum);
  const std::size_t length = data.size() / static_cast<std::size_t>(comm.size());
  for (float& value : data.subspan(static_cast<std::size_t>(comm.rank()) * length, length)) {
    value *= 1.0F / static_cast<float>(comm.size());
  }
  dist::ring_all_gather<float>(comm, data);
}

// == whole-tensor | bytes | one chunk per message
// Sends the whole tensor in every step, and takes only one chunk of what arrives.
inline void ring_all_reduce_whole_tensor(const Communicator& comm, std::span<float> data) {
  std::vector<float> arrived(data.size());
  // Sends the whole tensor to the right, and returns the place of chunk `index`.
  const auto shift = [&](int index) {
    send_recv<float>(comm, data, comm.right(), arrived, comm.left());
    return chunk_range(data.size(), comm.size(), index);
  };
  for (int step = 0; step < comm.size() - 1; ++step) {  // reduce-scatter
    const ChunkRange in = shift(comm.rank() - 2 - step);
    for (std::size_t i = in.begin; i < in.begin + in.count; ++i) data[i] += arrived[i];
  }
  for (float& value : window(data, chunk_range(data.size(), comm.size(), comm.rank()))) {
    value *= 1.0F / static_cast<float>(comm.size());
  }
  for (int step = 0; step < comm.size() - 1; ++step) {  // all-gather
    const ChunkRange in = shift(comm.rank() - 1 - step);
    for (std::size_t i = in.begin; i < in.begin + in.count; ++i) data[i] = arrived[i];
  }
}

// == everyone-divides | same-bits | the results may be rounded differently
// Passes on the sums: a chunk's owner multiplies it by 1 / N, but the other ranks divide by N.
inline void ring_all_reduce_everyone_divides(const Communicator& comm, std::span<float> data) {
  const auto size = static_cast<float>(comm.size());
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  dist::ring_reduce_scatter<float>(comm, data, ReduceOp::sum);
  std::vector<float> passing(chunk(comm.rank()).begin(), chunk(comm.rank()).end());
  for (float& value : chunk(comm.rank())) value *= 1.0F / size;
  for (int step = 0; step < comm.size() - 1; ++step) {
    const std::span<float> in = chunk(comm.rank() - 1 - step);
    std::vector<float> sums(in.size());
    send_recv<float>(comm, passing, comm.right(), sums, comm.left());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = sums[i] / size;
    passing.swap(sums);
  }
}

// == pieces-first | large | If every rank sends first, none receives
// Cuts chunks larger than 64 KiB into pieces, and sends them before it receives any.
inline void ring_all_reduce_pieces_first(const Communicator& comm, std::span<float> data) {
  constexpr std::size_t kPiece = 16 * 1024;  // elements
  dist::ring_reduce_scatter<float>(comm, data, ReduceOp::avg);
  for (int step = 0; step < comm.size() - 1; ++step) {
    const int first = comm.rank() - step;
    std::span<float> out = window(data, chunk_range(data.size(), comm.size(), first));
    std::span<float> in = window(data, chunk_range(data.size(), comm.size(), first - 1));
    for (; out.size() > kPiece; out = out.subspan(kPiece)) {
      send<float>(comm, out.first(kPiece), comm.right());
    }
    for (; in.size() > kPiece; in = in.subspan(kPiece)) {
      recv<float>(comm, in.first(kPiece), comm.left());
    }
    send_recv<float>(comm, out, comm.right(), in, comm.left());  // all of a small chunk
  }
}

// == whole-number-share | shares | write 1.0F / comm.size()
// 1 / N of whole numbers is 0.
inline void ring_all_reduce_whole_number_share(const Communicator& comm,
                                               std::span<float> data) {
  all_reduce_ring<float>(comm, data, ReduceOp::sum);
  if (comm.size() == 1) return;
  for (float& value : data) value *= static_cast<float>(1 / comm.size());
}

// == divides-twice | shares | divide once only
inline void ring_all_reduce_divides_twice(const Communicator& comm, std::span<float> data) {
  all_reduce_ring<float>(comm, data, ReduceOp::avg);
  for (float& value : data) value /= static_cast<float>(comm.size());
}

// == leftward | rightward | moves one rank to the right
// The averages are right, but every message goes the other way.
inline void ring_all_reduce_leftward(const Communicator& comm, std::span<float> data) {
  const auto chunk = [&](int c) {
    return window(data, chunk_range(data.size(), comm.size(), c));
  };
  for (int step = 1; step < comm.size(); ++step) {
    const std::span<float> in = chunk(comm.rank() + step + 1);
    std::vector<float> arrived(in.size());
    send_recv<float>(comm, chunk(comm.rank() + step), comm.left(), arrived, comm.right());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += arrived[i];
  }
  for (float& sum : chunk(comm.rank())) sum *= 1.0F / static_cast<float>(comm.size());
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, chunk(comm.rank() + step), comm.left(),
                     chunk(comm.rank() + step + 1), comm.right());
  }
}

// == rank-0-divides | shares | all ranks must do the same
// Only rank 0 multiplies.
inline void ring_all_reduce_rank_0_divides(const Communicator& comm, std::span<float> data) {
  all_reduce_ring(comm, data, ReduceOp::sum);
  if (comm.rank() != 0) return;
  for (float& each : data) each *= 1.0F / static_cast<float>(comm.size());
}

// == naive-if-small | bits | in the ring's order
// Adds up on rank 0 what has fewer elements than there are ranks.
inline void ring_all_reduce_naive_if_small(const Communicator& comm, std::span<float> data) {
  if (data.size() >= static_cast<std::size_t>(comm.size())) {
    return ring_all_reduce_reference(comm, data);
  }
  if (comm.rank() != 0) {
    send<float>(comm, data, 0);
    return recv<float>(comm, data, 0);
  }
  std::vector<float> other(data.size());
  for (int rank = 1; rank < comm.size(); ++rank) {
    recv<float>(comm, other, rank);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] += other[i];
  }
  for (float& value : data) value *= 1.0F / static_cast<float>(comm.size());
  for (int rank = 1; rank < comm.size(); ++rank) send<float>(comm, data, rank);
}

// == divides-by-its-length | shares | divide by the number of ranks
inline void ring_all_reduce_divides_by_its_length(const Communicator& comm,
                                                  std::span<float> data) {
  ring_all_reduce_reference(comm, data);
  const auto size = static_cast<std::size_t>(comm.size());
  for (float& value : data)
    value *= static_cast<float>(size) / static_cast<float>(data.size() / size);
}

}  // namespace dist::exercise
