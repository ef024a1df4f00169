// Known solutions of the exercise ring_shift: the reference, and others, right and wrong.
// More are in ring_shift_changes.toml.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "common/check.hpp"
#include "common/communicator.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <unistd.h>
#include <vector>

namespace dist::exercise {

// == reference | done
inline void ring_shift_reference(const Communicator& comm, std::span<const float> out,
                                 std::span<float> in) {
  MPI_CHECK(MPI_Sendrecv(out.data(), mpi_count(out.size()), MPI_FLOAT, comm.right(), 0,
                         in.data(), mpi_count(in.size()), MPI_FLOAT, comm.left(), 0, comm.get(),
                         MPI_STATUS_IGNORE));
}

// == turns | done
// Even ranks send first, and a single rank copies.
inline void ring_shift_turns(const Communicator& comm, std::span<const float> out,
                             std::span<float> in) {
  if (comm.size() == 1) return std::copy(out.begin(), out.end(), in.begin()), void();
  if (comm.rank() % 2 == 0) send<float>(comm, out, comm.right());
  recv<float>(comm, in, comm.left());
  if (comm.rank() % 2 == 1) send<float>(comm, out, comm.right());
}

// == send-first | large | may wait until the receiver is ready
// Every rank sends first, then receives.
inline void ring_shift_send_first(const Communicator& comm, std::span<const float> out,
                                  std::span<float> in) {
  send<float>(comm, out, comm.right());
  recv<float>(comm, in, comm.left());
}

// == endless | four-numbers | one of its loops never ends
// Sends messages without end.
inline void ring_shift_endless(const Communicator& comm, std::span<const float> out,
                               std::span<float> in) {
  for (;;) send_recv<float>(comm, out, comm.rank(), in, comm.rank());
  send_recv<float>(comm, out, comm.right(), in, comm.left());
}

// == throws-lines | four-numbers | unless you threw this yourself
// What it throws looks like an answer, and has bytes that are not UTF-8.
inline void ring_shift_throws_lines(const Communicator& comm, std::span<const float> out,
                                    std::span<float> in) {
  if (comm.size() > 0) throw std::runtime_error("\xff\x1b[2J lost\ndone\nhint: done");
  send_recv<float>(comm, out, comm.right(), in, comm.left());
}

// == escape-finalize | four-numbers | it neither ends the program
// Ends MPI and the program with status 0.
inline void ring_shift_escape_finalize(const Communicator& comm, std::span<const float> out,
                                       std::span<float> in) {
  MPI_Finalize();
  std::exit(0);
  send_recv<float>(comm, out, comm.right(), in, comm.left());
}

// == escape-fork | four-numbers | nor starts another one
// Starts a process that outlives the check.
inline void ring_shift_escape_fork(const Communicator& comm, std::span<const float> out,
                                   std::span<float> in) {
  if (fork() == 0) sleep(1000);
  send_recv<float>(comm, out, comm.right(), in, comm.left());
}

// == escape-shell | end | nor starts another one
// Starts a process with a shell.
inline void ring_shift_escape_shell(const Communicator& comm, std::span<const float> out,
                                    std::span<float> in) {
  if (std::system("sleep 1000 &") != 0) return;
  send_recv<float>(comm, out, comm.right(), in, comm.left());
}

// == escape-memory | four-numbers | allocates without end
// Allocates without end.
inline void ring_shift_escape_memory(const Communicator& comm, std::span<const float> out,
                                     std::span<float> in) {
  for (std::vector<char*> all;;) all.push_back(new char[1 << 26]);
  send_recv<float>(comm, out, comm.right(), in, comm.left());
}

// == receive-first | four-numbers | so nobody has sent yet
// Every rank receives first, then sends.
inline void ring_shift_receive_first(const Communicator& comm, std::span<const float> out,
                                     std::span<float> in) {
  recv<float>(comm, in, comm.left());
  send<float>(comm, out, comm.right());
}

// == leftward | four-numbers | so it receives from comm.left()
// Sends to the left.
inline void ring_shift_leftward(const Communicator& comm, std::span<const float> out,
                                std::span<float> in) {
  send_recv<float>(comm, out, comm.left(), in, comm.right());
}

// == count-in-bytes | guard-zones | a number of elements, not of bytes
// Passes the size in bytes as the count of floats.
inline void ring_shift_count_in_bytes(const Communicator& comm, std::span<const float> out,
                                      std::span<float> in) {
  MPI_CHECK(MPI_Sendrecv(out.data(), mpi_count(out.size_bytes()), MPI_FLOAT, comm.right(), 0,
                         in.data(), mpi_count(in.size_bytes()), MPI_FLOAT, comm.left(), 0,
                         comm.get(), MPI_STATUS_IGNORE));
}

// == only-four | values | send all out.size() elements
// Always transfers four numbers.
inline void ring_shift_only_four(const Communicator& comm, std::span<const float> out,
                                 std::span<float> in) {
  const std::size_t count = std::min<std::size_t>(4, out.size());
  send_recv<float>(comm, out.first(count), comm.right(), in.first(count), comm.left());
}

// == no-wait | waits | is sent or received belongs to MPI
// Does not wait for its send.
inline void ring_shift_no_wait(const Communicator& comm, std::span<const float> out,
                               std::span<float> in) {
  MPI_Request sending = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Isend(out.data(), mpi_count(out.size()), MPI_FLOAT, comm.right(), 0, comm.get(),
                      &sending));
  recv<float>(comm, in, comm.left());
}

// == to-everybody | messages | a rank needs only its left neighbour's numbers
// Every rank sends to every rank.
inline void ring_shift_to_everybody(const Communicator& comm, std::span<const float> out,
                                    std::span<float> in) {
  std::vector<float> other(in.size());
  for (int step = 0; step < comm.size(); ++step) {
    const int source = (comm.rank() - step + comm.size()) % comm.size();
    send_recv<float>(comm, out, (comm.rank() + step) % comm.size(), other, source);
    if (source == comm.left()) std::ranges::copy(other, in.begin());
  }
}

// == one-after-another | at-once | the ring takes N times as long
// Each rank but the first waits for its left neighbour's message before it sends.
inline void ring_shift_one_after_another(const Communicator& comm, std::span<const float> out,
                                         std::span<float> in) {
  if (comm.size() == 1) return send_recv<float>(comm, out, 0, in, 0);
  if (comm.rank() == 0) send<float>(comm, out, comm.right());
  recv<float>(comm, in, comm.left());
  if (comm.rank() != 0) send<float>(comm, out, comm.right());
}

// == world | four-numbers | it uses MPI_COMM_WORLD
inline void ring_shift_world(const Communicator& comm, std::span<const float> out,
                             std::span<float> in) {
  int rank = 0, size = 0;
  MPI_CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  MPI_CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size));
  MPI_CHECK(MPI_Sendrecv(out.data(), mpi_count(out.size()), MPI_FLOAT, (rank + 1) % size, 0,
                         in.data(), mpi_count(in.size()), MPI_FLOAT, (rank + size - 1) % size,
                         0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

// == remembers-the-ring | again | a static or global variable
// Asks for its neighbours once for all calls.
inline void ring_shift_remembers_the_ring(const Communicator& comm, std::span<const float> out,
                                          std::span<float> in) {
  static const int left = comm.left(), right = comm.right();
  send_recv<float>(comm, out, right, in, left);
}

// == nothing-to-send | lengths | a rank with nothing to send still receives
inline void ring_shift_nothing_to_send(const Communicator& comm, std::span<const float> out,
                                       std::span<float> in) {
  if (out.empty()) return;
  send_recv<float>(comm, out, comm.right(), in, comm.left());
}

// == alone | four-numbers | both neighbours are the rank itself
// With one rank, `in` is not filled.
inline void ring_shift_alone(const Communicator& comm, std::span<const float> out,
                             std::span<float> in) {
  if (comm.size() == 1) return;
  send_recv<float>(comm, out, comm.right(), in, comm.left());
}

}  // namespace dist::exercise
