// Belief:  a message that nobody receives is noticed.
// Predict: rank 0 sends four numbers to rank 1, which never calls a receive. What happens?
// You see: nothing. Both ranks go on, and the program would end with status 0.
// Why:     the message is below the eager limit, so MPI keeps it at the receiver, until it is
//          received or the program ends.
#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "common/program.hpp"

#include <mpi.h>

#include <vector>

namespace dist {

bool break_never_received(const Program& program) {
  const Communicator& comm = program.comm;
  std::vector<float> numbers(4);
  fill_tracer_numbers(numbers, comm.rank());
  if (comm.rank() == 0) {
    send<float>(comm, numbers, 1);
    program.console.line("  rank 0 has sent 4 numbers to rank 1, and goes on");
  }
  comm.barrier();
  // Asks whether a message is there, without receiving it.
  int waits = 0;
  if (comm.rank() == 1) {
    while (waits == 0) {
      MPI_CHECK(MPI_Iprobe(0, MPI_ANY_TAG, comm.get(), &waits, MPI_STATUS_IGNORE));
    }
  }
  const std::vector<int> all = comm.all_gather(waits);
  program.console.line(
      "  rank 1 never receives them, and goes on; messages that wait there: {}", all[1]);
  if (comm.rank() == 1) recv<float>(comm, numbers, 0);  // leaves nothing behind
  return all[1] == 1;
}

}  // namespace dist
