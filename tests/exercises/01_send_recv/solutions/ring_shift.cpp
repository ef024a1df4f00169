// Right and wrong steps of a ring.
#include "tests/exercises/01_send_recv/reference/ring_shift.hpp"

#include "tests/exercises/01_send_recv/solutions/solutions.hpp"

#include <mpi.h>

#include <algorithm>

namespace dist::exercise {
namespace {

using Out = std::span<const float>;
using In = std::span<float>;

void send_first(const Communicator& comm, Out out, In in) {
  send<float>(comm, out, comm.right());
  recv<float>(comm, in, comm.left());
}

void receive_first(const Communicator& comm, Out out, In in) {
  recv<float>(comm, in, comm.left());
  send<float>(comm, out, comm.right());
}

// Even ranks send first, odd ones receive first. But on one rank there is no odd one.
void turns_without_one(const Communicator& comm, Out out, In in) {
  if (comm.rank() % 2 == 0) {
    send_first(comm, out, in);
  } else {
    receive_first(comm, out, in);
  }
}

// Right: the same, and one rank copies.
void turns(const Communicator& comm, Out out, In in) {
  if (comm.size() > 1) return turns_without_one(comm, out, in);
  std::ranges::copy(out, in.begin());
}

// Right: the send is started, the receive made meanwhile.
void nonblocking(const Communicator& comm, Out out, In in) {
  Request leaves = isend<float>(comm, out, comm.right());
  recv<float>(comm, in, comm.left());
  leaves.wait();
}

void leftward(const Communicator& comm, Out out, In in) {
  send_recv<float>(comm, out, comm.left(), in, comm.right());
}

// A chain, not a ring: the last rank has nobody on its right, so the first receives nothing.
void chain(const Communicator& comm, Out out, In in) {
  const int rank = comm.rank();
  if (rank > 0) recv<float>(comm, in, rank - 1);
  if (rank + 1 < comm.size()) send<float>(comm, out, rank + 1);
}

void counts_in_bytes(const Communicator& comm, Out out, In in) {
  MPI_CHECK(MPI_Sendrecv(out.data(), mpi_count(out.size_bytes()), MPI_FLOAT, comm.right(), 0,
                         in.data(), mpi_count(in.size_bytes()), MPI_FLOAT, comm.left(), 0,
                         comm.get(), MPI_STATUS_IGNORE));
}

void no_wait(const Communicator& comm, Out out, In in) {
  MPI_Request sending = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Isend(out.data(), mpi_count(out.size()), MPI_FLOAT, comm.right(), 0, comm.get(),
                      &sending));
  recv<float>(comm, in, comm.left());
}

// Always four numbers, as in the lesson.
void only_four(const Communicator& comm, Out out, In in) {
  const std::size_t count = std::min<std::size_t>(4, out.size());
  send_recv<float>(comm, out.first(count), comm.right(), in.first(count), comm.left());
}

// Everybody hears everybody and keeps what the left one said.
void to_everybody(const Communicator& comm, Out out, In in) {
  std::vector<float> other(in.size());
  for (int step = 0; step < comm.size(); ++step) {
    const int dest = (comm.rank() + step) % comm.size();
    const int source = (comm.rank() - step + comm.size()) % comm.size();
    send_recv<float>(comm, out, dest, other, source);
    if (source == comm.left()) std::ranges::copy(other, in.begin());
  }
}

void mpi_gathers(const Communicator& comm, Out out, In in) {
  const int count = mpi_count(out.size());
  std::vector<float> all(out.size() * static_cast<std::size_t>(comm.size()));
  MPI_CHECK(
      MPI_Allgather(out.data(), count, MPI_FLOAT, all.data(), count, MPI_FLOAT, comm.get()));
  std::copy_n(all.begin() + comm.left() * static_cast<std::ptrdiff_t>(out.size()), in.size(),
              in.begin());
}

}  // namespace

std::vector<Solution> ring_shift_solutions() {
  const auto named = [](const char* name, const RingShift& solution) {
    return Solution{"ring_shift", name, checks_of_ring_shift(solution)};
  };
  return {
      named("reference", ring_shift),
      named("turns", turns),
      named("nonblocking", nonblocking),
      named("send-first", send_first),
      named("receive-first", receive_first),
      named("turns-without-one", turns_without_one),
      named("leftward", leftward),
      named("chain", chain),
      named("count-in-bytes", counts_in_bytes),
      named("only-four", only_four),
      named("no-wait", no_wait),
      named("to-everybody", to_everybody),
      named("mpi", mpi_gathers),
  };
}

}  // namespace dist::exercise
