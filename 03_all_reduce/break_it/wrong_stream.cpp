// Belief:  an all-reduce is finished when its call has returned.
// Predict: the all-reduce is queued on a communication stream, the gradient is read on the
//          compute stream, and the last rank is late. What does the compute stream read?
// You see: every rank but the last reads stale values: its own gradient. Once the compute
//          stream has waited for the communication stream's event, it reads the sum.
// Why:     a call that takes a stream only queues work, and only an event orders two streams.
//          In most steps of most runs no rank is late, so the wrong program reads the right
//          numbers. Here the last rank calls the all-reduce only after the others have read, so
//          they cannot read the sum. This result was checked in the emulated build.
#include "01_send_recv/tracer_numbers.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "03_all_reduce/nccl_all_reduce.hpp"
#include "common/program.hpp"

#include <fmt/core.h>

#include <vector>

namespace dist {

bool break_wrong_stream(const Program& program) {
  const Console& console = program.console;
  const Communicator& comm = program.comm;
  const Stream& compute = program.stream;
  const Stream communication(compute.device());
  NcclCommunicator nccl = connect_nccl(comm, compute.device());
  const Tensor gradient({4}, compute.device());
  std::vector<float> own(gradient.numel());
  fill_tracer_numbers(own, comm.rank());

  // Make one call in advance, because NCCL connects the ranks in its first call, which
  // therefore waits for all of them.
  all_reduce_nccl(nccl, gradient, ReduceOp::sum, communication);
  nccl.synchronize(communication);
  copy_bytes(compute, gradient.data(), own.data(), gradient.size_bytes());
  compute.synchronize();

  communication.wait(compute.record_event());  // wait for the gradient
  const bool late = comm.rank() == comm.size() - 1;
  if (late) comm.barrier();
  all_reduce_nccl(nccl, gradient, ReduceOp::sum, communication);
  std::vector<float> too_early = own;
  if (!late) {
    too_early = to_host(compute, gradient);
    comm.barrier();
  }

  compute.wait(communication.record_event());  // the line that was missing
  const std::vector<float> right = to_host(compute, gradient);
  nccl.synchronize(communication);

  const double ranks = comm.size();
  const bool stale = comm.all_agree(too_early == own);
  const bool reduced =
      comm.all_agree(count_wrong(right, [&](std::size_t i) {
                       return ranks * (ranks - 1) / 2 * 1000 + ranks * static_cast<double>(i);
                     }) == 0);
  console.line(fmt::format("  without the event: {} on rank 0, {}", too_early[3],
                           stale ? "stale" : "not stale"));
  console.line(fmt::format("  after the event:   {} on rank 0, {}", right[3],
                           reduced ? "the sum" : "not the sum"));
  return stale && reduced;
}

}  // namespace dist
