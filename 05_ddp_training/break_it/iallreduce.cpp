// Belief:  a non-blocking all-reduce works in the background.
// Predict: every rank starts MPI_Iallreduce for 4 MiB and computes for 0.3 s without calling
//          MPI. Is the all-reduce complete then? And a blocking one on a second thread?
// You see: MPI_Iallreduce is not complete, although it needs few milliseconds. The other is.
// Why:     Open MPI works on messages only while a thread of the program is inside an MPI call.
//          A computation, such as the backward pass, makes none. The second thread stays inside
//          its call until the work is done.
// In the wild: MPI_Iallreduce finishes only in MPI_Wait, open-mpi/ompi#8436.
#include "03_all_reduce/ring.hpp"
#include "05_ddp_training/break_it/experiments.hpp"
#include "05_ddp_training/process_group/patient_wait.hpp"
#include "common/check.hpp"

#include <mpi.h>

#include <fmt/core.h>

#include <chrono>
#include <future>
#include <vector>

namespace dist {
namespace {

void compute() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  for (volatile double x = 1; std::chrono::steady_clock::now() < end;) x = x * 0.999;
}

}  // namespace

bool break_iallreduce(const Program& program) {
  const Communicator& comm = program.comm;
  std::vector<float> data(1 << 20, 1.0F);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Iallreduce(MPI_IN_PLACE, data.data(), mpi_count(data.size()), MPI_FLOAT,
                           MPI_SUM, comm.get(), &request));
  compute();
  int done = 0;
  MPI_CHECK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
  MPI_CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE));

  std::future<void> thread = std::async(std::launch::async, [&] {
    wait_patiently(true);
    all_reduce_ring<float>(comm, data, ReduceOp::sum);
  });
  compute();
  const bool thread_done =
      thread.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  thread.get();
  const auto text = [](bool complete) { return complete ? "complete" : "not complete"; };
  program.console.line(fmt::format("  MPI_Iallreduce, after 0.3 s: {}", text(done != 0)));
  program.console.line(fmt::format("  on a second thread: {}", text(thread_done)));
  program.console.row(
      {{"break", "iallreduce"}, {"nonblocking", done != 0}, {"on_thread", thread_done}});
  const float twice_summed = static_cast<float>(comm.size() * comm.size());
  return comm.all_agree(done == 0 && thread_done && data == std::vector(1 << 20, twice_summed));
}

}  // namespace dist
