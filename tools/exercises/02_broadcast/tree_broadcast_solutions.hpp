// Known solutions of the exercise tree_broadcast: the reference, and others, right and wrong.
// More are in tree_broadcast_changes.toml.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/binomial_tree.hpp"
#include "02_broadcast/flat.hpp"
#include "common/check.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace dist::exercise {

// == reference | done
inline void tree_broadcast_reference(const Communicator& comm, std::span<float> data,
                                     int root) {
  const int size = comm.size();
  const int vrank = (comm.rank() - root + size) % size;
  const auto rank_of = [&](int v) { return (v + root) % size; };
  for (int d = 1; d < size; d *= 2) {
    if (vrank < d) {
      if (vrank + d < size) send<float>(comm, data, rank_of(vrank + d));
    } else if (vrank < 2 * d) {
      recv<float>(comm, data, rank_of(vrank - d));
    }
  }
}

// == by-halves | done
// Sends to the first vrank of the upper half, and so on in each half.
inline void tree_broadcast_by_halves(const Communicator& comm, std::span<float> data,
                                     int root) {
  const int size = comm.size(), vrank = (comm.rank() - root + size) % size;
  for (int begin = 0, end = size; end - begin > 1;) {
    const int middle = begin + (end - begin + 1) / 2;
    if (vrank == begin) send<float>(comm, data, (middle + root) % size);
    if (vrank == middle) recv<float>(comm, data, (begin + root) % size);
    (vrank < middle ? end : begin) = middle;
  }
}

// == flat | rounds | every rank that has the data helps
// The root sends to every rank.
inline void tree_broadcast_flat(const Communicator& comm, std::span<float> data, int root) {
  broadcast_flat<float>(comm, data, root);
}

// == mpi | no-collective | single messages are enough
// Calls MPI_Bcast.
inline void tree_broadcast_mpi(const Communicator& comm, std::span<float> data, int root) {
  MPI_CHECK(MPI_Bcast(data.data(), mpi_count(data.size()), MPI_FLOAT, root, comm.get()));
}

// == rounds-up | guard-zones | send and receive data.size() elements
// Rounds the length up to a multiple of four, as if every tensor were padded.
inline void tree_broadcast_rounds_up(const Communicator& comm, std::span<float> data,
                                     int root) {
  // Up to three elements more than `data` has.
  broadcast_tree<float>(comm, std::span(data.data(), (data.size() + 3) / 4 * 4), root);
}

// == first-64-kib | large | send and receive all data.size() elements
// Uses a fixed buffer of 64 KiB, so the rest of a longer tensor is not sent.
inline void tree_broadcast_first_64_kib(const Communicator& comm, std::span<float> data,
                                        int root) {
  std::vector<float> buffer(16 * 1024);
  const std::size_t count = std::min(data.size(), buffer.size());
  std::copy_n(data.begin(), count, buffer.begin());
  broadcast_tree<float>(comm, std::span(buffer).first(count), root);
  std::copy_n(buffer.begin(), count, data.begin());
}

// == on-a-copy | root-0 | is a copy, in other memory
// Receives into a copy.
inline void tree_broadcast_on_a_copy(const Communicator& comm, std::span<float> data,
                                     int root) {
  std::vector<float> copy(data.begin(), data.end());
  tree_broadcast_reference(comm, copy, root);
}

// == rounds-half-up | root-0 | A rank must have the data before it sends
// Halves the distance, from half of the ranks, rounded up: right on 2^k and 2^k - 1 ranks.
inline void tree_broadcast_rounds_half_up(const Communicator& comm, std::span<float> data,
                                          int root) {
  const int size = comm.size();
  const int vrank = (comm.rank() - root + size) % size;
  const auto rank_of = [&](int v) { return (v + root) % size; };
  for (int distance = (size + 1) / 2; distance >= 1; distance /= 2) {
    if (vrank % (2 * distance) == 0) {
      if (vrank + distance < size) send<float>(comm, data, rank_of(vrank + distance));
    } else if (vrank % distance == 0) {
      recv<float>(comm, data, rank_of(vrank - distance));
    }
  }
}

}  // namespace dist::exercise
