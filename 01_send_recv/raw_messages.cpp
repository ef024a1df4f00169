// What this file adds: MPI_Send and MPI_Recv, with all of their arguments.
// Look at: how one program plays two roles (`if rank == 0`), and which rank may send first.
#include "01_send_recv/raw_messages.hpp"

#include "common/check.hpp"

#include <mpi.h>

#include <vector>

namespace dist {

// [1] One message.
//
// Every rank runs this function. The ranks share no memory: each process has its own array
// `numbers`, and data moves between them only in a message that one rank sends *and* another
// receives.
void raw_message(const Communicator& comm, std::span<float> numbers) {
  if (comm.size() < 2) return;  // there is no other rank
  const int count =
      mpi_count(numbers.size());  // elements, not bytes: MPI knows what a float is
  const int tag = 0;  // any number you like; a receive takes only messages with its own tag
  if (comm.rank() == 0) {
    MPI_CHECK(MPI_Send(numbers.data(), count, MPI_FLOAT, /*dest=*/1, tag, comm.get()));
    // Now `numbers` may be overwritten. That does not mean that rank 1 has received them.
  } else if (comm.rank() == 1) {
    // Here `count` is the capacity of the buffer. A longer message is an error
    // (MPI_ERR_TRUNCATE); a shorter one is not. The status says how many elements arrived.
    MPI_CHECK(MPI_Recv(numbers.data(), count, MPI_FLOAT, /*source=*/0, tag, comm.get(),
                       MPI_STATUS_IGNORE));
  }
}

// [2] Once around the ring.
//
//   rank 0 ----> rank 1 ----> rank 2 ----> rank 3 ---.
//     a0         a0+a1        a0+a1+a2     a0+..+a3   |
//     ^----------------------------------------------'
//
// Rank 0 sends first and receives last. All other ranks receive first. If rank 0 also received
// first, every rank would wait for a message that no rank has sent.
void raw_ring(const Communicator& comm, std::span<float> numbers) {
  if (comm.size() < 2) return;  // one rank's numbers are already the sum
  const int count = mpi_count(numbers.size());
  const int tag = 0;
  if (comm.rank() == 0) {
    MPI_CHECK(MPI_Send(numbers.data(), count, MPI_FLOAT, comm.right(), tag, comm.get()));
    MPI_CHECK(MPI_Recv(numbers.data(), count, MPI_FLOAT, comm.left(), tag, comm.get(),
                       MPI_STATUS_IGNORE));
  } else {
    std::vector<float> sum(numbers.size());
    MPI_CHECK(MPI_Recv(sum.data(), count, MPI_FLOAT, comm.left(), tag, comm.get(),
                       MPI_STATUS_IGNORE));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += sum[i];
    MPI_CHECK(MPI_Send(numbers.data(), count, MPI_FLOAT, comm.right(), tag, comm.get()));
  }
}

}  // namespace dist
