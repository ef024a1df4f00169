// Belief:  NCCL's sends and receives pair up automatically, like MPI's Isend and Irecv,
//          because the calls return at once.
// Predict: in a step of the ring, every rank calls ncclSend to the right and then ncclRecv
//          from the left. Does the step end if ncclGroupStart and ncclGroupEnd enclose the two
//          calls? Does it end without these two?
// You see: with a group, the left neighbour's numbers arrive. Without one, each rank's send
//          waits for its right neighbour's receive, in a cycle, until the watch ends the job
//          with status 86. The emulated build hangs every time. On a GPU a small send fits into
//          NCCL's buffers and may not hang, so 512 MiB are sent there.
// Why:     the calls only queue work. On a stream, the receive does not start before the send
//          has ended, and the send waits for a receive. A group combines the two into one
//          operation.
// In the wild: NVIDIA/nccl#479. Not every call without a group hangs: NVIDIA/nccl#1144.
#include "01_send_recv/gpu/check_nccl.hpp"
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/nccl_send_recv.hpp"
#include "01_send_recv/show/tracer_numbers.hpp"
#include "02_broadcast/connect_nccl.hpp"
#include "03_all_reduce/break_it/experiments.hpp"
#include "common/check.hpp"
#include "common/watch.hpp"

#include <fmt/core.h>

namespace dist {

#if DIST_WITH_NCCL
bool break_no_group(const Program& program) {
  const Communicator& comm = program.comm;
  const Stream& stream = program.stream;
  // More than NCCL's buffers can hold: 4 MiB (NCCL_BUFFSIZE) for each of up to 32 channels.
  constexpr std::size_t kCount = DIST_CUDA_EMULATED ? 1024 : 1U << 27;
  const Tensor out({kCount}, stream.device()), in({kCount}, stream.device());
  on_host(stream, out, [&](std::span<float> data) { fill_tracer_numbers(data, comm.rank()); });
  NcclCommunicator nccl = connect_nccl(comm, stream.device());
  // Also connects the ranks, to the right and to the left.
  send_recv_nccl(nccl, out, comm.right(), in, comm.left(), stream);
  nccl.synchronize(stream);
  const std::size_t wrong = count_wrong(
      to_host(stream, in), [&](std::size_t i) { return tracer_number(comm.left(), i); });
  const bool grouped_is_right = comm.all_agree(wrong == 0);
  program.console.line(
      fmt::format("  grouped: {}; now without a group, until the watch ends the job",
                  grouped_is_right ? "right" : "WRONG"));
  program.console.row({{"break", "no-group"},
                       {"ranks", comm.size()},
                       {"bytes", kCount * sizeof(float)},
                       {"grouped_is_right", grouped_is_right}});

  NCCL_CHECK(nccl,
             ncclSend(out.data(), kCount, ncclFloat, comm.right(), nccl.get(), stream.get()));
  NCCL_CHECK(nccl,
             ncclRecv(in.data(), kCount, ncclFloat, comm.left(), nccl.get(), stream.get()));
  // The watch cannot see into a GPU's stream, so this text tells it where the stream will hang.
  const WaitScope wait("ncclSend to the right, before its ncclRecv", comm, comm.right());
  stream.synchronize();
  return false;  // nothing hung
}
#else
bool break_no_group(const Program&) {
  throw Error("built without NCCL");
}
#endif

}  // namespace dist
