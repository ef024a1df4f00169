// Belief:  NCCL's sends and receives pair up automatically.
// Predict: every rank queues a send to the right, then a receive from the left, on one stream.
//          The calls return at once. Does the stream ever finish?
// You see: in a group, it does. Without a group, every rank's stream waits in its send. Real
//          NCCL may buffer some data, so the message is large; the emulated build buffers none.
// Why:     a stream does its work in order. Every rank's receive is queued behind its send, and
//          the send waits for the receive of the rank to the right. A group turns the two calls
//          into one operation.
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "01_send_recv/nccl_send_recv.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "common/program.hpp"

#include <cstddef>

namespace dist {

bool break_no_group([[maybe_unused]] const Program& program) {
#if DIST_WITH_NCCL
  const Console& console = program.console;
  const Communicator& comm = program.comm;
  const Stream& stream = program.stream;
  // More than NCCL's buffers can hold: 4 MiB (NCCL_BUFFSIZE) for each of up to 32 channels.
  constexpr std::size_t kCount = DIST_CUDA_EMULATED ? 1U << 22 : 1U << 27;
  const Tensor out({kCount}, stream.device());
  const Tensor in(out.shape(), stream.device());
  on_host(stream, out, [&](auto data) { fill_tracer_numbers(data, comm.rank()); });
  NcclCommunicator nccl = connect_nccl_by_messages(comm, stream.device());
  // Also connects the ranks, to the right and to the left.
  send_recv_nccl(nccl, out, comm.right(), in, comm.left(), stream);
  nccl.synchronize(stream);
  const bool right = comm.all_agree(read_on_host(stream, in, [&](auto data) {
    return count_wrong(data, [&](auto i) { return tracer_number(comm.left(), i); }) == 0;
  }));
  const std::string size = format_bytes(out.size_bytes());
  console.line("  {} to the right, send and receive in a group: {}", size,
               right ? "right numbers" : "WRONG numbers");
  console.line("  {} to the right, without the group: this will hang", size);

  // The ranks are connected in both directions, so the calls return, and only the streams hang.
  NCCL_CHECK(nccl, ncclSend(out.data(), out.numel(), ncclFloat, comm.right(), nccl.get(),
                            stream.get()));
  NCCL_CHECK(nccl,
             ncclRecv(in.data(), in.numel(), ncclFloat, comm.left(), nccl.get(), stream.get()));
  nccl.synchronize(stream);
#endif
  return false;
}

}  // namespace dist
