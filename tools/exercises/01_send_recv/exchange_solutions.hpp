// Known solutions of the exercise exchange: the reference, and others, right and wrong.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "common/check.hpp"
#include "common/communicator.hpp"

#include <mpi.h>

#include <algorithm>
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

// == send-first | large | MPI_Send may wait until the peer is ready
// Both send first, then receive.
inline void exchange_send_first(const Communicator& comm, int peer, std::span<const float> out,
                                std::span<float> in) {
  send<float>(comm, out, peer);
  recv<float>(comm, in, peer);
}

// == send-first-if-small | four-numbers | each may be waiting for the other to receive
// Both send first if MPI buffers the message: only --strict finds it.
inline void exchange_send_first_if_small(const Communicator& comm, int peer,
                                         std::span<const float> out, std::span<float> in) {
  if (std::max(out.size_bytes(), in.size_bytes()) > 4000)
    return send_recv<float>(comm, out, peer, in, peer);
  send<float>(comm, out, peer);
  recv<float>(comm, in, peer);
}

// == wrong-tag | four-numbers | use the same tag on both sides
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

// == no-wait | waits | `out` belongs to MPI
// Does not wait for its send: the caller writes to `out` while MPI reads it.
inline void exchange_no_wait(const Communicator& comm, int peer, std::span<const float> out,
                             std::span<float> in) {
  MPI_Request sending = MPI_REQUEST_NULL;
  MPI_CHECK(
      MPI_Isend(out.data(), mpi_count(out.size()), MPI_FLOAT, peer, 0, comm.get(), &sending));
  recv<float>(comm, in, peer);
}

// == count-in-bytes | guard-zones | a number of elements, not of bytes
// Passes the size in bytes as the count of floats.
inline void exchange_count_in_bytes(const Communicator& comm, int peer,
                                    std::span<const float> out, std::span<float> in) {
  MPI_CHECK(MPI_Sendrecv(out.data(), mpi_count(out.size_bytes()), MPI_FLOAT, peer, 0, in.data(),
                         mpi_count(in.size_bytes()), MPI_FLOAT, peer, 0, comm.get(),
                         MPI_STATUS_IGNORE));
}

// == only-four | values | send all out.size() elements
// Always transfers four numbers.
inline void exchange_only_four(const Communicator& comm, int peer, std::span<const float> out,
                               std::span<float> in) {
  const std::size_t count = std::min<std::size_t>(4, out.size());
  send_recv<float>(comm, out.first(count), peer, in.first(count), peer);
}

}  // namespace dist::exercise
