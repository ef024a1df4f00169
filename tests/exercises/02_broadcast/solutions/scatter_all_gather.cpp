// Right and wrong broadcasts in chunks.
#include "tests/exercises/02_broadcast/reference/scatter_all_gather.hpp"

#include "02_broadcast/scatter_all_gather.hpp"
#include "tests/exercises/02_broadcast/solutions/solutions.hpp"

#include <mpi.h>

#include <vector>

namespace dist::exercise {
namespace {

using Data = std::span<float>;

Data chunk(const Communicator& comm, Data data, int index) {
  return window(data, chunk_range(data.size(), comm.size(), index));
}

void scatter(const Communicator& comm, Data data, int root) {
  if (comm.rank() != root) return recv<float>(comm, chunk(comm, data, comm.rank()), root);
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank != root) send<float>(comm, chunk(comm, data, rank), rank);
  }
}

// The ring to the left, whose first chunk to send is rank + first; right with 0.
void gather_from(const Communicator& comm, Data data, int first, int steps) {
  for (int step = 0; step < steps; ++step) {
    send_recv<float>(comm, chunk(comm, data, comm.rank() + first + step), comm.left(),
                     chunk(comm, data, comm.rank() + first + step + 1), comm.right());
  }
}

// Right: non-blocking, and empty chunks stay at home.
void nonblocking(const Communicator& comm, Data data, int root) {
  std::vector<Request> sends;
  for (int step = 1; comm.rank() == root && step < comm.size(); ++step) {
    const int dest = (root + step) % comm.size();
    const Data out = chunk(comm, data, dest);
    if (!out.empty()) sends.push_back(isend<float>(comm, out, dest, 1));
  }
  int mine = comm.rank();
  const Data own = chunk(comm, data, mine);
  if (comm.rank() != root && !own.empty()) recv<float>(comm, own, root, 1);
  for (int step = 1; step < comm.size(); ++step, ++mine) {
    const Data in = chunk(comm, data, mine + 1);
    const Data out = chunk(comm, data, mine);
    if (!out.empty()) sends.push_back(isend<float>(comm, out, comm.left(), 2));
    if (!in.empty()) recv<float>(comm, in, comm.right(), 2);
  }
  for (Request& request : sends) request.wait();
}

// Right: seat s, counted from the root, has chunk s.
void by_seats(const Communicator& comm, Data data, int root) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  if (seat > 0) recv<float>(comm, chunk(comm, data, seat), root);
  for (int other = 1; seat == 0 && other < size; ++other) {
    send<float>(comm, chunk(comm, data, other), (root + other) % size);
  }
  gather_from(comm, data, seat - comm.rank(), size - 1);
}

// The lesson's own goes to the right, after a tree.
void lessons_own(const Communicator& comm, Data data, int root) {
  broadcast_scatter_all_gather<float>(comm, data, root);
}

void rightward(const Communicator& comm, Data data, int root) {
  scatter(comm, data, root);
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, chunk(comm, data, comm.rank() - step), comm.right(),
                     chunk(comm, data, comm.rank() - step - 1), comm.left());
  }
}

// Turned round half: to the left, but with the chunks of the ring to the right.
void rightward_chunks(const Communicator& comm, Data data, int root) {
  scatter(comm, data, root);
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, chunk(comm, data, comm.rank() - step), comm.left(),
                     chunk(comm, data, comm.rank() - step - 1), comm.right());
  }
}

void off_by_one(const Communicator& comm, Data data, int root) {
  scatter(comm, data, root);
  gather_from(comm, data, 1, comm.size() - 1);
}

void one_step_short(const Communicator& comm, Data data, int root) {
  scatter(comm, data, root);
  gather_from(comm, data, 0, comm.size() - 2);
}

void one_step_too_many(const Communicator& comm, Data data, int root) {
  scatter(comm, data, root);
  gather_from(comm, data, 0, comm.size());
}

void own_chunk_only(const Communicator& comm, Data data, int root) {
  scatter(comm, data, root);
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, chunk(comm, data, comm.rank()), comm.left(),
                     chunk(comm, data, comm.rank() + step + 1), comm.right());
  }
}

void root_0_deals(const Communicator& comm, Data data, int) {
  scatter(comm, data, 0);
  gather_from(comm, data, 0, comm.size() - 1);
}

// The whole tensor to everybody; there is nothing left to gather, but it does.
void whole_tensor_in_scatter(const Communicator& comm, Data data, int root) {
  if (comm.rank() != root) recv<float>(comm, data, root);
  for (int rank = 0; comm.rank() == root && rank < comm.size(); ++rank) {
    if (rank != root) send<float>(comm, data, rank);
  }
  gather_from(comm, data, 0, comm.size() - 1);
}

// Everything round the ring in every step, and out of it the chunk that is new.
void whole_tensor_in_ring(const Communicator& comm, Data data, int root) {
  scatter(comm, data, root);
  std::vector<float> coming(data.size());
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, data, comm.left(), coming, comm.right());
    const Data in = chunk(comm, data, comm.rank() + step + 1);
    const Data from = chunk(comm, coming, comm.rank() + step + 1);
    std::copy(from.begin(), from.end(), in.begin());
  }
}

void blocking_ring(const Communicator& comm, Data data, int root) {
  scatter(comm, data, root);
  for (int step = 0; step < comm.size() - 1; ++step) {
    send<float>(comm, chunk(comm, data, comm.rank() + step), comm.left());
    recv<float>(comm, chunk(comm, data, comm.rank() + step + 1), comm.right());
  }
}

// length / N elements each, and the rest is forgotten.
void no_remainder(const Communicator& comm, Data data, int root) {
  const auto n = static_cast<std::size_t>(comm.size());
  scatter_all_gather(comm, data.first(data.size() / n * n), root);
}

// All chunks as long as the longest: the last ones reach beyond the end.
void equal_chunks(const Communicator& comm, Data data, int root) {
  const auto n = static_cast<std::size_t>(comm.size());
  const std::size_t length = (data.size() + n - 1) / n;
  scatter_all_gather(comm, std::span(data.data(), length * n), root);
}

// The root has everything, so it takes no part in the ring; the others wait for its chunks.
void root_stays_out(const Communicator& comm, Data data, int root) {
  scatter(comm, data, root);
  if (comm.rank() != root) gather_from(comm, data, 0, comm.size() - 1);
}

// Deals to itself as well, and a large message to oneself waits for ever.
void deals_to_itself(const Communicator& comm, Data data, int root) {
  for (int rank = 0; comm.rank() == root && rank < comm.size(); ++rank) {
    send<float>(comm, chunk(comm, data, rank), rank);
  }
  recv<float>(comm, chunk(comm, data, comm.rank()), root);
  gather_from(comm, data, 0, comm.size() - 1);
}

void everything_from_the_root(const Communicator& comm, Data data, int root) {
  for (int c = 0; c < comm.size(); ++c) {
    if (comm.rank() != root) recv<float>(comm, chunk(comm, data, c), root);
    for (int rank = 0; comm.rank() == root && rank < comm.size(); ++rank) {
      if (rank != root) send<float>(comm, chunk(comm, data, c), rank);
    }
  }
}

void mpi_does_it(const Communicator& comm, Data data, int root) {
  MPI_CHECK(MPI_Bcast(data.data(), mpi_count(data.size()), MPI_FLOAT, root, comm.get()));
}

}  // namespace

std::vector<Solution> scatter_all_gather_solutions() {
  const auto named = [](const char* name, const Broadcast& solution) {
    return Solution{"scatter_all_gather", name, checks_of_scatter_all_gather(solution)};
  };
  return {
      named("reference", scatter_all_gather),
      named("nonblocking", nonblocking),
      named("by-seats", by_seats),
      named("lessons-own", lessons_own),
      named("rightward", rightward),
      named("rightward-chunks", rightward_chunks),
      named("off-by-one", off_by_one),
      named("one-step-short", one_step_short),
      named("one-step-too-many", one_step_too_many),
      named("own-chunk-only", own_chunk_only),
      named("root-0-deals", root_0_deals),
      named("whole-tensor-in-scatter", whole_tensor_in_scatter),
      named("whole-tensor-in-ring", whole_tensor_in_ring),
      named("blocking-ring", blocking_ring),
      named("no-remainder", no_remainder),
      named("equal-chunks", equal_chunks),
      named("root-stays-out", root_stays_out),
      named("deals-to-itself", deals_to_itself),
      named("everything-from-root", everything_from_the_root),
      named("mpi", mpi_does_it),
  };
}

}  // namespace dist::exercise
