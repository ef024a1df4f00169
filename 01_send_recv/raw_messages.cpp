// What this file adds: MPI_Send and MPI_Recv, with all of their arguments.
// Look at: how one program plays two parts (`if rank == 0`), and who is allowed to send first.
#include "01_send_recv/raw_messages.hpp"

#include "common/check.hpp"

#include <mpi.h>

#include <vector>

namespace dist {

// [1] One message.
//
// Every rank runs this same function. The ranks share no memory: `numbers` is another array in
// each process, and the only way from one to the other is a message that the one sends *and*
// the other receives.
void raw_message(const Communicator& comm, std::span<float> numbers) {
  if (comm.size() < 2) return;  // nobody to talk to
  const int count =
      mpi_count(numbers.size());  // elements, not bytes: MPI knows what a float is
  const int tag = 0;  // a number of your choice; a receive takes only messages that carry it
  if (comm.rank() == 0) {
    MPI_CHECK(MPI_Send(numbers.data(), count, MPI_FLOAT, /*dest=*/1, tag, comm.get()));
    // Here `numbers` may be written again. It does not mean that rank 1 has received.
  } else if (comm.rank() == 1) {
    // `count` is how many fit, not how many come: a longer message is an error
    // (MPI_ERR_TRUNCATE), a shorter one is not. The status says how many came.
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
// Rank 0 sends first and receives last; everybody else receives first. If all of them received
// first, all would wait for a message that nobody has sent yet.
void raw_ring(const Communicator& comm, std::span<float> numbers) {
  if (comm.size() < 2) return;  // the sum over one rank is there already
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
