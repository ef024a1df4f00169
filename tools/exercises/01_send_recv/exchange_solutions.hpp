// Known solutions of the exercise exchange: the reference, and others, right and wrong.
// More are in exchange_changes.toml.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "common/check.hpp"
#include "common/communicator.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace dist::exercise {

// == reference | done
inline void exchange_reference(const Communicator& comm, int peer, std::span<const float> out,
                               std::span<float> in) {
  MPI_CHECK(MPI_Sendrecv(out.data(), mpi_count(out.size()), MPI_FLOAT, peer, 0, in.data(),
                         mpi_count(in.size()), MPI_FLOAT, peer, 0, comm.get(),
                         MPI_STATUS_IGNORE));
}

// == nonblocking | done
// Starts both operations, then waits for both.
inline void exchange_nonblocking(const Communicator& comm, int peer, std::span<const float> out,
                                 std::span<float> in) {
  Request comes = irecv<float>(comm, in, peer);
  Request leaves = isend<float>(comm, out, peer);
  comes.wait();
  leaves.wait();
}

// == send-first | large | may wait until the peer receives
// Both send first, then receive.
inline void exchange_send_first(const Communicator& comm, int peer, std::span<const float> out,
                                std::span<float> in) {
  send<float>(comm, out, peer);
  recv<float>(comm, in, peer);
}

// == send-first-if-small | four-numbers | small messages may work because MPI buffers them
// Both send first if MPI buffers the message: only --strict finds it.
inline void exchange_send_first_if_small(const Communicator& comm, int peer,
                                         std::span<const float> out, std::span<float> in) {
  if (std::max(out.size_bytes(), in.size_bytes()) > 4000)
    return send_recv<float>(comm, out, peer, in, peer);
  send<float>(comm, out, peer);
  recv<float>(comm, in, peer);
}

// == wrong-tag | four-numbers | both ranks must use the same number
// Each uses its own rank as the tag.
inline void exchange_wrong_tag(const Communicator& comm, int peer, std::span<const float> out,
                               std::span<float> in) {
  Request comes = irecv<float>(comm, in, peer, comm.rank());
  send<float>(comm, out, peer, comm.rank());
  comes.wait();
}

// == wrong-peer | four-numbers | use the argument as both destination and source
// Sends to the right and receives from the left, whatever the peer.
inline void exchange_wrong_peer(const Communicator& comm, int peer, std::span<const float> out,
                                std::span<float> in) {
  send_recv<float>(comm, out, comm.right(), in, comm.left());
}

// == announces-length | messages | already says how much arrives
// Sends the length first.
inline void exchange_announces_length(const Communicator& comm, int peer,
                                      std::span<const float> out, std::span<float> in) {
  const auto length = static_cast<std::int64_t>(out.size());
  std::int64_t coming = 0;
  send_recv<std::int64_t>(comm, std::span(&length, 1), peer, std::span(&coming, 1), peer);
  send_recv<float>(comm, out, peer, in.first(static_cast<std::size_t>(coming)), peer);
}

// == no-wait | waits | is sent or received belongs to MPI
// Does not wait for its send: the caller writes to `out` while MPI reads it.
inline void exchange_no_wait(const Communicator& comm, int peer, std::span<const float> out,
                             std::span<float> in) {
  MPI_Request sending = MPI_REQUEST_NULL;
  MPI_CHECK(
      MPI_Isend(out.data(), mpi_count(out.size()), MPI_FLOAT, peer, 0, comm.get(), &sending));
  recv<float>(comm, in, peer);
}

// == only-four | values | send all out.size() elements
// Always transfers four numbers.
inline void exchange_only_four(const Communicator& comm, int peer, std::span<const float> out,
                               std::span<float> in) {
  const std::size_t count = std::min<std::size_t>(4, out.size());
  send_recv<float>(comm, out.first(count), peer, in.first(count), peer);
}

// == persistent | done
// With persistent requests, which are messages like any others.
inline void exchange_persistent(const Communicator& comm, int peer, std::span<const float> out,
                                std::span<float> in) {
  std::array<MPI_Request, 2> both{};
  MPI_CHECK(
      MPI_Recv_init(in.data(), mpi_count(in.size()), MPI_FLOAT, peer, 3, comm.get(), &both[0]));
  MPI_CHECK(MPI_Send_init(out.data(), mpi_count(out.size()), MPI_FLOAT, peer, 3, comm.get(),
                          &both[1]));
  MPI_CHECK(MPI_Startall(2, both.data()));
  MPI_CHECK(MPI_Waitall(2, both.data(), MPI_STATUSES_IGNORE));
  for (MPI_Request& request : both) MPI_CHECK(MPI_Request_free(&request));
}

// == some-at-a-time | done
// Waits with MPI_Waitsome, and tests in between.
inline void exchange_some_at_a_time(const Communicator& comm, int peer,
                                    std::span<const float> out, std::span<float> in) {
  std::array<MPI_Request, 2> both{};
  std::array<int, 2> places{};
  MPI_CHECK(
      MPI_Irecv(in.data(), mpi_count(in.size()), MPI_FLOAT, peer, 3, comm.get(), &both[0]));
  MPI_CHECK(
      MPI_Isend(out.data(), mpi_count(out.size()), MPI_FLOAT, peer, 3, comm.get(), &both[1]));
  int done = 0;
  MPI_CHECK(MPI_Testsome(2, both.data(), &done, places.data(), MPI_STATUSES_IGNORE));
  while (done != MPI_UNDEFINED) {
    MPI_CHECK(MPI_Waitsome(2, both.data(), &done, places.data(), MPI_STATUSES_IGNORE));
  }
}

// == receive-first | four-numbers | so nobody has sent yet
inline void exchange_receive_first(const Communicator& comm, int peer,
                                   std::span<const float> out, std::span<float> in) {
  recv<float>(comm, in, peer);
  send<float>(comm, out, peer);
}

// == changes-out | four-numbers | `out` belongs to the caller
inline void exchange_changes_out(const Communicator& comm, int peer, std::span<const float> out,
                                 std::span<float> in) {
  send_recv<float>(comm, out, peer, in, peer);
  std::fill_n(const_cast<float*>(out.data()), out.size(), 0.0F);
}

// == does-not-end | four-numbers | computes without end
inline void exchange_does_not_end(const Communicator& comm, int peer,
                                  std::span<const float> out, std::span<float> in) {
  send_recv<float>(comm, out, peer, in, peer);
  for (volatile int i = 0; i < 10; i = 0) continue;
}

// == barrier | four-numbers | a collective returns only when all ranks
// Only one of the two calls it.
inline void exchange_barrier(const Communicator& comm, int peer, std::span<const float> out,
                             std::span<float> in) {
  if (comm.rank() < peer) MPI_CHECK(MPI_Barrier(comm.get()));
  send_recv<float>(comm, out, peer, in, peer);
}

// == returns-if-lower | four-numbers | both partners send and receive once
// Only the partner with the higher rank works.
inline void exchange_returns_if_lower(const Communicator& comm, int peer,
                                      std::span<const float> out, std::span<float> in) {
  if (comm.rank() > peer) send_recv<float>(comm, out, peer, in, peer);
}

}  // namespace dist::exercise
