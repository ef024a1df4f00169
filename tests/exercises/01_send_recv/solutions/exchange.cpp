// Right and wrong exchanges. Each wrong one is a mistake that is easily made; solutions.txt
// says which check finds it.
#include "tests/exercises/01_send_recv/reference/exchange.hpp"

#include "tests/exercises/01_send_recv/solutions/solutions.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>

namespace dist::exercise {
namespace {

using Out = std::span<const float>;
using In = std::span<float>;

void send_to(const Communicator& comm, Out out, int dest, int tag = 0) {
  MPI_CHECK(MPI_Send(out.data(), mpi_count(out.size()), MPI_FLOAT, dest, tag, comm.get()));
}

void receive_from(const Communicator& comm, In in, int source, int tag = 0) {
  MPI_CHECK(MPI_Recv(in.data(), mpi_count(in.size()), MPI_FLOAT, source, tag, comm.get(),
                     MPI_STATUS_IGNORE));
}

// Right: the lower rank sends first, and a rank that is its own peer sends nothing.
void in_turns(const Communicator& comm, int peer, Out out, In in) {
  if (peer == comm.rank()) {
    std::ranges::copy(out, in.begin());
  } else if (comm.rank() < peer) {
    send_to(comm, out, peer);
    receive_from(comm, in, peer);
  } else {
    receive_from(comm, in, peer);
    send_to(comm, out, peer);
  }
}

// Right: both are started, then both are waited for.
void nonblocking(const Communicator& comm, int peer, Out out, In in) {
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_CHECK(MPI_Isend(out.data(), mpi_count(out.size()), MPI_FLOAT, peer, 7, comm.get(),
                      &requests[0]));
  MPI_CHECK(
      MPI_Irecv(in.data(), mpi_count(in.size()), MPI_FLOAT, peer, 7, comm.get(), &requests[1]));
  MPI_CHECK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
}

void send_first(const Communicator& comm, int peer, Out out, In in) {
  send_to(comm, out, peer);
  receive_from(comm, in, peer);
}

// Both send first as long as that went well on the machine at hand.
void send_first_if_small(const Communicator& comm, int peer, Out out, In in) {
  if (std::max(out.size_bytes(), in.size_bytes()) <= 4000) {
    send_first(comm, peer, out, in);
  } else {
    exchange(comm, peer, out, in);
  }
}

void receive_first(const Communicator& comm, int peer, Out out, In in) {
  receive_from(comm, in, peer);
  send_to(comm, out, peer);
}

// The tag says who I am. But the peer is called otherwise.
void own_rank_as_tag(const Communicator& comm, int peer, Out out, In in) {
  send_to(comm, out, peer, comm.rank());
  receive_from(comm, in, peer, comm.rank());
}

void to_the_right(const Communicator& comm, int, Out out, In in) {
  send_recv<float>(comm, out, comm.right(), in, comm.left());
}

void counts_in_bytes(const Communicator& comm, int peer, Out out, In in) {
  MPI_CHECK(MPI_Sendrecv(out.data(), mpi_count(out.size_bytes()), MPI_FLOAT, peer, 0, in.data(),
                         mpi_count(in.size_bytes()), MPI_FLOAT, peer, 0, comm.get(),
                         MPI_STATUS_IGNORE));
}

void sends_bytes_of_floats(const Communicator& comm, int peer, Out out, In in) {
  MPI_CHECK(MPI_Sendrecv(out.data(), mpi_count(out.size_bytes()), MPI_FLOAT, peer, 0, in.data(),
                         mpi_count(in.size()), MPI_FLOAT, peer, 0, comm.get(),
                         MPI_STATUS_IGNORE));
}

// Takes for granted that the peer sends as much as I do.
void same_length(const Communicator& comm, int peer, Out out, In in) {
  MPI_CHECK(MPI_Sendrecv(out.data(), mpi_count(out.size()), MPI_FLOAT, peer, 0, in.data(),
                         mpi_count(out.size()), MPI_FLOAT, peer, 0, comm.get(),
                         MPI_STATUS_IGNORE));
}

// As much as both have.
void shorter_length(const Communicator& comm, int peer, Out out, In in) {
  const std::size_t count = std::min(out.size(), in.size());
  send_recv<float>(comm, out.first(count), peer, in.first(count), peer);
}

void forgets_itself(const Communicator& comm, int peer, Out out, In in) {
  if (comm.rank() < peer) {
    send_first(comm, peer, out, in);
  } else {
    receive_first(comm, peer, out, in);
  }
}

void announces_the_length(const Communicator& comm, int peer, Out out, In in) {
  const auto length = static_cast<std::int64_t>(out.size());
  std::int64_t coming = 0;
  send_recv<std::int64_t>(comm, std::span(&length, 1), peer, std::span(&coming, 1), peer);
  send_recv<float>(comm, out, peer, in.first(static_cast<std::size_t>(coming)), peer);
}

// What has been received shows that the peer was here; the own message may still be under way.
void waits_for_the_receive_only(const Communicator& comm, int peer, Out out, In in) {
  MPI_Request sending = MPI_REQUEST_NULL;
  MPI_CHECK(
      MPI_Isend(out.data(), mpi_count(out.size()), MPI_FLOAT, peer, 0, comm.get(), &sending));
  receive_from(comm, in, peer);
}

void keeps_its_own(const Communicator&, int, Out out, In in) {
  std::copy_n(out.begin(), std::min(out.size(), in.size()), in.begin());
}

}  // namespace

std::vector<Solution> exchange_solutions() {
  const auto named = [](const char* name, const Exchange& solution) {
    return Solution{"exchange", name, checks_of_exchange(solution)};
  };
  return {
      named("reference", exchange),
      named("in-turns", in_turns),
      named("nonblocking", nonblocking),
      named("send-first", send_first),
      named("send-first-if-small", send_first_if_small),
      named("receive-first", receive_first),
      named("wrong-tag", own_rank_as_tag),
      named("wrong-peer", to_the_right),
      named("count-in-bytes", counts_in_bytes),
      named("sends-bytes", sends_bytes_of_floats),
      named("same-length", same_length),
      named("shorter-length", shorter_length),
      named("forgets-itself", forgets_itself),
      named("announces-length", announces_the_length),
      named("no-wait", waits_for_the_receive_only),
      named("keeps-its-own", keeps_its_own),
  };
}

}  // namespace dist::exercise
