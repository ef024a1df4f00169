// What this file adds: a side-by-side comparison of five ways in which MPI lets ranks pass
// their numbers on. They differ in what the sender waits for, and therefore in what can hang.
// Builds on: send_recv.hpp.
// Look at: the order of sends and receives. Only the first two ways depend on that order.
#pragma once

#include "01_send_recv/send_recv.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace dist {

// Even ranks send first, odd ranks receive first:
//
//   size 4   first   0 -> 1   2 -> 3        size 3   first    0 -> 1
//            then    1 -> 2   3 -> 0                 then     1 -> 2   2 -> 0
//
// With an odd size the last rank and rank 0 are neighbours, and both send first. That does not
// deadlock: rank 1 receives, so rank 0 reaches its own receive, and rank size - 1 follows.
template <class Send>
void take_turns(const Communicator& comm, std::span<float> in, Send send_right) {
  if (comm.rank() % 2 == 0) {
    send_right();
    recv<float>(comm, in, comm.left());
  } else {
    recv<float>(comm, in, comm.left());
    send_right();
  }
}

// [6] Five ways to pass numbers on. Each sends `out` to the rank on the right and receives `in`
// from the rank on the left. All lengths are equal. Called on all ranks, of which there are at
// least two. The first way returns when `out` may be overwritten: by then, MPI has copied a
// small message, or the receive of a large one has started.
inline void exchange_blocking(const Communicator& comm, std::span<const float> out,
                              std::span<float> in) {
  take_turns(comm, in, [&] { send<float>(comm, out, comm.right()); });
}

// MPI_Ssend returns only after the matching receive has started, however small the message
// is. A program that works with it does not depend on MPI's buffering.
inline void exchange_synchronous(const Communicator& comm, std::span<const float> out,
                                 std::span<float> in) {
  take_turns(comm, in, [&] {
    MPI_CHECK(MPI_Ssend(out.data(), mpi_count(out.size()), MPI_FLOAT, comm.right(), /*tag=*/0,
                        comm.get()));
  });
}

// Returns when MPI has copied `out` into a buffer that the program provides. All ranks may
// therefore send first, but this takes additional memory and one more copy.
inline void exchange_buffered(const Communicator& comm, std::span<const float> out,
                              std::span<float> in) {
  const std::size_t bytes = out.size_bytes() + MPI_BSEND_OVERHEAD;
  // A vector would first fill the memory with zeros.
  const auto lent = std::make_unique_for_overwrite<std::byte[]>(bytes);
  MPI_CHECK(MPI_Buffer_attach(lent.get(), mpi_count(bytes)));
  MPI_CHECK(MPI_Bsend(out.data(), mpi_count(out.size()), MPI_FLOAT, comm.right(), /*tag=*/0,
                      comm.get()));
  recv<float>(comm, in, comm.left());
  // Detaching waits until the buffer is empty. If it came before the receive, it would cause
  // the very wait that the buffer is meant to avoid.
  void* address = nullptr;
  int size = 0;
  MPI_CHECK(MPI_Buffer_detach(static_cast<void*>(&address), &size));
}

// Both calls return at once, before any data has moved.
inline void exchange_nonblocking(const Communicator& comm, std::span<const float> out,
                                 std::span<float> in) {
  Request receiving = irecv<float>(comm, in, comm.left());
  Request sending = isend<float>(comm, out, comm.right());
  receiving.wait();
  sending.wait();
}

// Sends and receives in one call.
inline void exchange_combined(const Communicator& comm, std::span<const float> out,
                              std::span<float> in) {
  send_recv<float>(comm, out, comm.right(), in, comm.left());
}

struct WayToExchange {
  const char* name;
  const char* call;
  void (*exchange)(const Communicator&, std::span<const float> out, std::span<float> in);
  const char* if_all_send_first;  // {} is the eager limit
};

inline constexpr std::array<WayToExchange, 5> kWaysToExchange{{
    {"blocking", "MPI_Send", exchange_blocking, "hangs above {}"},
    {"synchronous", "MPI_Ssend", exchange_synchronous, "hangs"},
    {"buffered", "MPI_Bsend", exchange_buffered, "works"},
    {"non-blocking", "MPI_Isend", exchange_nonblocking, "works"},
    {"combined", "MPI_Sendrecv", exchange_combined, "works"},
}};

}  // namespace dist
