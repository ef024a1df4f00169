// Right and wrong reductions that are not edited copies of another solution.
#pragma once

#include "tests/exercises/02_broadcast/reference/tree_reduce.hpp"

#include <mpi.h>

#include <span>
#include <vector>

namespace dist::exercise {

inline void receive_and_add(const Communicator& comm, std::span<float> sum, int source) {
  std::vector<float> coming(sum.size());
  recv<float>(comm, coming, source);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += coming[i];
}

// The same tree, but each rank receives from the farthest seat first. That seat's part takes
// longest, so the others have to wait for it.
inline void farthest_first(const Communicator& comm, std::span<const float> data,
                           std::span<float> sum, int root) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  std::ranges::copy(data, sum.begin());
  int lowest = 1;
  while (lowest < size && (seat & lowest) == 0) lowest *= 2;
  for (int bit = lowest / 2; bit > 0; bit /= 2) {
    if (seat + bit < size) receive_and_add(comm, sum, (seat + bit + root) % size);
  }
  if (seat > 0) send<float>(comm, sum, (seat - lowest + root) % size);
}

// Right: collects the sum over the seats `begin` to `end` - 1 on seat `begin`.
inline void collect(const Communicator& comm, std::span<float> sum, int root, int begin,
                    int end) {
  if (end - begin < 2) return;
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  const int middle = begin + (end - begin + 1) / 2;
  if (seat < middle) {
    collect(comm, sum, root, begin, middle);
  } else {
    collect(comm, sum, root, middle, end);
  }
  if (seat == begin) receive_and_add(comm, sum, (middle + root) % size);
  if (seat == middle) send<float>(comm, sum, (begin + root) % size);
}

inline void by_halves(const Communicator& comm, std::span<const float> data,
                      std::span<float> sum, int root) {
  std::ranges::copy(data, sum.begin());
  collect(comm, sum, root, 0, comm.size());
}

inline void flat(const Communicator& comm, std::span<const float> data, std::span<float> sum,
                 int root) {
  if (comm.rank() != root) return send<float>(comm, data, root);
  std::ranges::copy(data, sum.begin());
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank != root) receive_and_add(comm, sum, rank);
  }
}

inline void chain(const Communicator& comm, std::span<const float> data, std::span<float> sum,
                  int root) {
  const int seat = (comm.rank() - root + comm.size()) % comm.size();
  std::ranges::copy(data, sum.begin());
  if (seat + 1 < comm.size()) receive_and_add(comm, sum, comm.right());
  if (seat > 0) send<float>(comm, sum, comm.left());
}

// Leaves the sum on every rank, which the exercise does not ask for.
inline void gives_back(const Communicator& comm, std::span<const float> data,
                       std::span<float> sum, int root) {
  tree_reduce(comm, data, sum, root);
  if (comm.rank() != root) return recv<float>(comm, sum, root);
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank != root) send<float>(comm, sum, rank);
  }
}

inline void mpi(const Communicator& comm, std::span<const float> data, std::span<float> sum,
                int root) {
  MPI_CHECK(MPI_Reduce(data.data(), sum.data(), mpi_count(data.size()), MPI_FLOAT, MPI_SUM,
                       root, comm.get()));
}

}  // namespace dist::exercise
