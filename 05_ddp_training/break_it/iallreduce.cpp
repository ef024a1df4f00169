// Belief:  a non-blocking all-reduce works in the background.
// Predict: every rank starts MPI_Iallreduce for 4 MiB and computes for 0.3 s without calling
//          MPI. Is the all-reduce complete then? Can a blocking one on a second thread be?
// You see: MPI_Iallreduce is not complete, although it needs few milliseconds. The other is.
// Why:     Open MPI works on messages only while a thread is inside an MPI call. A computation,
//          such as backward, makes none. The second thread stays inside its call to the end.
#include "03_all_reduce/ring.hpp"
#include "05_ddp_training/small_training/small_training.hpp"
#include "common/check.hpp"
#include "common/watch.hpp"

#include <mpi.h>

#include <chrono>
#include <future>

namespace dist {
bool break_iallreduce(const Program& program) {
  const Communicator& comm = program.comm;
  // Computes until `done()`, or for this time: a thread may have to wait for a core.
  const auto compute = [](std::chrono::milliseconds time, auto done) {
    const auto end = std::chrono::steady_clock::now() + time;
    volatile double x = 1;
    while (std::chrono::steady_clock::now() < end && !done()) x = x * 0.999;
    return done();
  };
  std::vector<float> data(1 << 20, 1.0F);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Iallreduce(MPI_IN_PLACE, data.data(), mpi_count(data.size()), MPI_FLOAT,
                           MPI_SUM, comm.get(), &request));
  compute(std::chrono::milliseconds(300), [] { return false; });
  int done = 0;
  MPI_CHECK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
  MPI_CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE));

  std::future<void> thread = std::async(std::launch::async, [&] {
    set_patience(Patience::always);
    all_reduce_ring<float>(comm, data, ReduceOp::sum);
  });
  const bool thread_done = compute(std::chrono::seconds(10), [&] {
    return thread.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  thread.get();
  say(program, "  complete: MPI_Iallreduce {}, on a second thread {}", done != 0, thread_done);
  const auto twice_summed = static_cast<float>(comm.size() * comm.size());
  return done == 0 && thread_done && data == std::vector(1 << 20, twice_summed);
}

}  // namespace dist
