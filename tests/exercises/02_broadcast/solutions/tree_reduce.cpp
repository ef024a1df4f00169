// Right and wrong reductions.
#include "tests/exercises/02_broadcast/reference/tree_reduce.hpp"

#include "tests/exercises/02_broadcast/solutions/solutions.hpp"

#include <mpi.h>

namespace dist::exercise {
namespace {

using Data = std::span<const float>;
using Sum = std::span<float>;

void add(Sum into, Data from) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] += from[i];
}

void receive_and_add(const Communicator& comm, Sum sum, int source) {
  std::vector<float> coming(sum.size());
  recv<float>(comm, coming, source);
  add(sum, coming);
}

// Right: seats that are a multiple of 2d receive from the seat at distance d, d from 1 on.
void nearest_first(const Communicator& comm, Data data, Sum sum, int root) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  std::ranges::copy(data, sum.begin());
  for (int d = 1; d < size; d *= 2) {
    if (seat % (2 * d) == d) return send<float>(comm, sum, (seat - d + root) % size);
    if (seat + d < size) receive_and_add(comm, sum, (seat + d + root) % size);
  }
}

// The same tree, the farthest first: whose part takes longest, and the others wait with it.
void farthest_first(const Communicator& comm, Data data, Sum sum, int root) {
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

// Right: collects the sum of seats begin to end - 1 at seat begin.
void collect(const Communicator& comm, Sum sum, int root, int begin, int end) {
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

void by_halves(const Communicator& comm, Data data, Sum sum, int root) {
  std::ranges::copy(data, sum.begin());
  collect(comm, sum, root, 0, comm.size());
}

// The broadcast's rounds in the broadcast's order, only with sends and receives exchanged: who
// sends in round 1 has not collected yet.
void not_backwards(const Communicator& comm, Data data, Sum sum, int root) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  std::ranges::copy(data, sum.begin());
  for (int d = 1; d < size; d *= 2) {
    if (seat < d && seat + d < size) receive_and_add(comm, sum, (seat + d + root) % size);
    if (seat >= d && seat < 2 * d) send<float>(comm, sum, (seat - d + root) % size);
  }
}

// Passes on its own data, not what it has added up.
void sends_its_own(const Communicator& comm, Data data, Sum sum, int root) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  std::ranges::copy(data, sum.begin());
  for (int d = 1; d < size; d *= 2) {
    if (seat % (2 * d) == d) return send<float>(comm, data, (seat - d + root) % size);
    if (seat + d < size) receive_and_add(comm, sum, (seat + d + root) % size);
  }
}

void replaces(const Communicator& comm, Data data, Sum sum, int root) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  std::ranges::copy(data, sum.begin());
  for (int d = 1; d < size; d *= 2) {
    if (seat % (2 * d) == d) return send<float>(comm, sum, (seat - d + root) % size);
    if (seat + d < size) recv<float>(comm, sum, (seat + d + root) % size);
  }
}

// Adds what comes to zeros: nobody's own share is in it.
void forgets_its_own(const Communicator& comm, Data data, Sum sum, int root) {
  const std::vector<float> zeros(data.size());
  tree_reduce(comm, zeros, sum, root);
}

// Adds its own share in every round.
void own_in_every_round(const Communicator& comm, Data data, Sum sum, int root) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  std::ranges::copy(data, sum.begin());
  for (int d = 1; d < size; d *= 2) {
    if (seat % (2 * d) == d) return send<float>(comm, sum, (seat - d + root) % size);
    if (seat + d < size) receive_and_add(comm, sum, (seat + d + root) % size);
    if (d > 1) add(sum, data);
  }
}

void to_rank_0(const Communicator& comm, Data data, Sum sum, int) {
  tree_reduce(comm, data, sum, 0);
}

// A seat where a rank is wanted.
void seats_for_ranks(const Communicator& comm, Data data, Sum sum, int root) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  std::ranges::copy(data, sum.begin());
  for (int d = 1; d < size; d *= 2) {
    if (seat % (2 * d) == d) return send<float>(comm, sum, seat - d);
    if (seat + d < size) receive_and_add(comm, sum, seat + d);
  }
}

void flat(const Communicator& comm, Data data, Sum sum, int root) {
  if (comm.rank() != root) return send<float>(comm, data, root);
  std::ranges::copy(data, sum.begin());
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank != root) receive_and_add(comm, sum, rank);
  }
}

void chain(const Communicator& comm, Data data, Sum sum, int root) {
  const int seat = (comm.rank() - root + comm.size()) % comm.size();
  std::ranges::copy(data, sum.begin());
  if (seat + 1 < comm.size()) receive_and_add(comm, sum, comm.right());
  if (seat > 0) send<float>(comm, sum, comm.left());
}

// Everybody has the sum in the end: nobody asked for that.
void gives_it_back(const Communicator& comm, Data data, Sum sum, int root) {
  tree_reduce(comm, data, sum, root);
  if (comm.rank() != root) return recv<float>(comm, sum, root);
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank != root) send<float>(comm, sum, rank);
  }
}

// A child is asked for although the tree ends before it, where size is no power of two.
void waits_for_nobody(const Communicator& comm, Data data, Sum sum, int root) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  std::ranges::copy(data, sum.begin());
  for (int d = 1; d < size; d *= 2) {
    if (seat % (2 * d) == d) return send<float>(comm, sum, (seat - d + root) % size);
    receive_and_add(comm, sum, (seat + d + root) % size);
  }
}

void first_element_only(const Communicator& comm, Data data, Sum sum, int root) {
  const std::size_t count = std::min<std::size_t>(4, data.size());
  tree_reduce(comm, data.first(count), sum.first(count), root);
}

void mpi_does_it(const Communicator& comm, Data data, Sum sum, int root) {
  MPI_CHECK(MPI_Reduce(data.data(), sum.data(), mpi_count(data.size()), MPI_FLOAT, MPI_SUM,
                       root, comm.get()));
}

}  // namespace

std::vector<Solution> tree_reduce_solutions() {
  const auto named = [](const char* name, const Reduce& solution) {
    return Solution{"tree_reduce", name, checks_of_tree_reduce(solution)};
  };
  return {
      named("reference", tree_reduce),
      named("nearest-first", nearest_first),
      named("by-halves", by_halves),
      named("not-backwards", not_backwards),
      named("sends-its-own", sends_its_own),
      named("replaces", replaces),
      named("forgets-its-own", forgets_its_own),
      named("own-every-round", own_in_every_round),
      named("to-rank-0", to_rank_0),
      named("seats-for-ranks", seats_for_ranks),
      named("farthest-first", farthest_first),
      named("flat", flat),
      named("chain", chain),
      named("gives-back", gives_it_back),
      named("waits-for-nobody", waits_for_nobody),
      named("first-four", first_element_only),
      named("mpi", mpi_does_it),
  };
}

}  // namespace dist::exercise
