// Look at: the order of sends and receives. Only the first two ways depend on that order.
#include "01_send_recv/exchanges.hpp"

#include "common/check.hpp"

#include <mpi.h>

#include <array>
#include <cstddef>
#include <memory>

namespace dist {
namespace {

constexpr int kTag = 0;

void receive_from_left(const Communicator& comm, std::span<float> in) {
  MPI_CHECK(MPI_Recv(in.data(), mpi_count(in.size()), MPI_FLOAT, comm.left(), kTag, comm.get(),
                     MPI_STATUS_IGNORE));
}

// Even ranks send first, odd ranks receive first:
//
//   size 4   first   0 -> 1   2 -> 3        size 3   first    0 -> 1
//            then    1 -> 2   3 -> 0                 then     1 -> 2   2 -> 0
//
// With an odd size the last rank and rank 0 are neighbours, and both send first. That does not
// deadlock: rank 1 receives, so rank 0 reaches its own receive, and rank size - 1 follows.
template <class Send>
void take_turns(const Communicator& comm, std::span<float> in, Send send) {
  if (comm.rank() % 2 == 0) {
    send();
    receive_from_left(comm, in);
  } else {
    receive_from_left(comm, in);
    send();
  }
}

}  // namespace

// [6] Five ways to pass numbers on. The first way returns when `out` may be overwritten: by
// then, MPI has copied a small message, or the receive of a large one has started.
void exchange_blocking(const Communicator& comm, std::span<const float> out,
                       std::span<float> in) {
  take_turns(comm, in, [&] {
    MPI_CHECK(
        MPI_Send(out.data(), mpi_count(out.size()), MPI_FLOAT, comm.right(), kTag, comm.get()));
  });
}

// MPI_Ssend returns only after the matching receive has started, however small the message
// is. A program that works with it does not depend on MPI's buffering.
void exchange_synchronous(const Communicator& comm, std::span<const float> out,
                          std::span<float> in) {
  take_turns(comm, in, [&] {
    MPI_CHECK(MPI_Ssend(out.data(), mpi_count(out.size()), MPI_FLOAT, comm.right(), kTag,
                        comm.get()));
  });
}

// Returns when MPI has copied `out` into a buffer that the program provides. All ranks may
// therefore send first, but this takes additional memory and one more copy.
void exchange_buffered(const Communicator& comm, std::span<const float> out,
                       std::span<float> in) {
  const std::size_t bytes = out.size_bytes() + MPI_BSEND_OVERHEAD;
  // A vector would first fill the memory with zeros.
  const auto lent = std::make_unique_for_overwrite<std::byte[]>(bytes);
  MPI_CHECK(MPI_Buffer_attach(lent.get(), mpi_count(bytes)));
  MPI_CHECK(
      MPI_Bsend(out.data(), mpi_count(out.size()), MPI_FLOAT, comm.right(), kTag, comm.get()));
  receive_from_left(comm, in);
  // Detaching waits until the buffer is empty. If it came before the receive, it would cause
  // the very wait that the buffer is meant to avoid.
  void* address = nullptr;
  int size = 0;
  MPI_CHECK(MPI_Buffer_detach(static_cast<void*>(&address), &size));
}

// Both calls return at once, before any data has moved. MPI_Waitall waits for both.
void exchange_nonblocking(const Communicator& comm, std::span<const float> out,
                          std::span<float> in) {
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_CHECK(MPI_Irecv(in.data(), mpi_count(in.size()), MPI_FLOAT, comm.left(), kTag, comm.get(),
                      &requests[0]));
  MPI_CHECK(MPI_Isend(out.data(), mpi_count(out.size()), MPI_FLOAT, comm.right(), kTag,
                      comm.get(), &requests[1]));
  MPI_CHECK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
}

// Sends and receives in one call.
void exchange_combined(const Communicator& comm, std::span<const float> out,
                       std::span<float> in) {
  MPI_CHECK(MPI_Sendrecv(out.data(), mpi_count(out.size()), MPI_FLOAT, comm.right(), kTag,
                         in.data(), mpi_count(in.size()), MPI_FLOAT, comm.left(), kTag,
                         comm.get(), MPI_STATUS_IGNORE));
}

}  // namespace dist
