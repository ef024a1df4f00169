// Lesson 1: a small tensor moves between ranks. Start at [1], in main.
//
//   mpirun -np 4 build/bin/send_recv         starts four processes, ranks 0 to 3, of this code
//   mpirun -np 2 build/bin/send_recv_perf    what a message costs, by size
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/show.hpp"
#include "common/mpi_environment.hpp"
#include "common/program.hpp"

#include <vector>

using namespace dist;

// [2] Passes a sum once around the ring 0 -> 1 -> ... -> size - 1 -> 0. send and recv wrap the
// calls of [1]. If rank 0 received first, as the others do, all would wait and none would send.
static void pass_sum_around(const Communicator& comm, std::span<float> numbers) {
  if (comm.size() == 1) return;  // one rank's numbers are already the sum
  if (comm.rank() == 0) {
    send<float>(comm, numbers, comm.right());
    recv<float>(comm, numbers, comm.left());
  } else {
    std::vector<float> sum(numbers.size());
    recv<float>(comm, sum, comm.left());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += sum[i];
    send<float>(comm, numbers, comm.right());
  }
}

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Program program("send_recv", "Lesson 1: a small tensor moves between ranks.");
  program.declare_common();
  if (const auto exit = program.start(argc, argv)) return *exit;
  const Communicator& comm = program.comm;
  program.console.line(describe_run(comm.size(), program.device));  // rank 0 prints

  // [1] Every rank has numbers of its own: rank r has 1000 r + i. They move only in a message
  // that one rank sends *and* another waits for. (for_mpi: by way of the host, if on a GPU.)
  Tensor tensor = four_numbers(program);
  for_mpi(program.stream, tensor, [&](std::span<float> numbers) {
    if (comm.rank() == 0 && comm.size() > 1) {
      MPI_CHECK(MPI_Send(numbers.data(), 4, MPI_FLOAT, /*dest=*/1, /*tag=*/0, comm.get()));
    } else if (comm.rank() == 1) {
      MPI_CHECK(MPI_Recv(numbers.data(), 4, MPI_FLOAT, /*source=*/0, /*tag=*/0, comm.get(),
                         MPI_STATUS_IGNORE));
    }
  });
  const int from = comm.rank() == 1 ? 0 : comm.rank();
  bool correct = show(program, "message", "rank 0 sends its four numbers to rank 1", tensor,
                      [&](int i) { return 1000 * from + i; });

  tensor = four_numbers(program);
  on_host(program.stream, tensor, [&](auto numbers) { pass_sum_around(comm, numbers); });
  const int added = comm.rank() == 0 ? comm.size() : comm.rank() + 1;  // 0 to added - 1
  correct &= show(program, "ring", "a sum goes around once, and every rank adds its numbers",
                  tensor, [&](int i) { return 1000 * added * (added - 1) / 2 + added * i; });
  return program.console.verdict(comm, correct,
                                 "every number is what it must be, on every rank",
                                 "at least one rank has a wrong number");
}
